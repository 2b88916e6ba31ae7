// The bucket of an offset: near distances one by one, then bins that grow with the distance. In single precision, as
// models compute it, which decides on which side of a border an offset falls.
function bucket(offset, { n, max, causal }) {
  const rows = causal ? n : n / 2, single = Math.floor(rows / 2), near = Math.fround;
  const distance = causal ? Math.max(-offset, 0) : Math.abs(offset);
  const growth = () => near(near(Math.log(near(distance / single))) / near(Math.log(max / single)));
  const within = distance < single ? distance : Math.min(rows - 1, single + Math.floor(near(growth() * (rows - single))));
  return within + (!causal && offset > 0 ? rows : 0);
}

function draw({ n: most, max, offset: start }) {
  const { el } = la, sign = v => String(v).replace("-", "−");
  let sizes = { n: most, max, causal: false }, offset = start, spans, choice;
  const singles = () => Math.floor(sizes.n / (sizes.causal ? 2 : 4)), reach = () => sizes.max + Math.ceil(sizes.max / 4);

  const directions = la.choice("offsets", ["both directions", "past only (causal)"], i => resize({ causal: i === 1 }));
  const many = la.slider({ name: "buckets", min: 4, max: 64, step: 2, input: n => resize({ n }) });
  const far = la.slider({ name: "farthest", min: 2, max: 256, step: 1, input: max => resize({ max }) });
  const position = la.slider({ name: "offset", hue: "position", step: 1, min: -1, max: 1, ends: ["past", "future"], input: v => { offset = v; update(); } });
  const boxes = el("div", { class: "la-boxes" }), result = el("p"), idle = el("small");
  const chart = la.chart(paint, v => { offset = v; update(); });
  la.show(
    el("div", { class: "la-bucket-explorer" }, chart.node, position.row, result, boxes, idle,
      el("div", { class: "la-settings" }, el("span", {}, "offsets"), directions.node), many.row, far.row));

  // For each bucket its first and its last offset; none for one that is never used.
  function count() {
    const end = sizes.max + 1, found = [...Array(sizes.n)].map(() => null);
    for (let v = -end; v <= end; v++) {
      const b = bucket(v, sizes);
      found[b] = [found[b]?.[0] ?? (v === -end ? -Infinity : v), v === end ? Infinity : v];
    }
    return found;
  }
  const range = span => !span ? "–" : span[0] === -Infinity ? `≤ ${sign(span[1])}` : span[1] === Infinity ? `≥ ${sign(span[0])}`
    : span[0] === span[1] ? sign(span[0]) : `${sign(span[0])} … ${sign(span[1])}`;
  const nearest = ([first, last]) => first > 0 ? first : last < 0 ? last : 0;

  function resize(changes) {
    sizes = { ...sizes, ...changes };
    if (sizes.max <= singles()) sizes.max = singles() + 1;
    offset = Math.min(Math.max(offset, -reach()), reach());
    spans = count();
    directions.set(+sizes.causal);
    many.set(sizes.n, String(sizes.n));
    far.set(sizes.max, String(sizes.max));
    for (const [name, value] of [["min", -reach()], ["max", reach()]]) position.row.querySelector("input")[name] = value;
    choice = la.choice("bucket", spans.map((span, b) => `${b}\n${range(span)}`), b => { offset = nearest(spans[b]); update(); });
    choice.labels.forEach((label, b) => { label.querySelector("input").disabled = !spans[b]; });
    boxes.replaceChildren(choice.node);
    const unused = spans.flatMap((span, b) => span ? [] : [b]);
    idle.textContent = unused.length ? `Never used: ${unused.join(", ")}.` : "Each bucket is used.";
    update();
  }

  function paint(chart) {
    const edge = reach(), now = bucket(offset, sizes), half = Math.round(sizes.max / 2);
    const steps = spans.flatMap((span, b) => span ? [[Math.max(span[0], -edge), Math.min(span[1], edge), b]] : []).sort((a, b) => a[0] - b[0]);
    chart.frame(
      { from: -edge, to: edge, ticks: [-sizes.max, -half, 0, half, sizes.max], name: "offset: key − query" },
      { from: 0, to: sizes.n - 1, ticks: [0, Math.floor(sizes.n / 2), sizes.n - 1], name: "bucket" });
    const [first, last] = steps.find(step => step[2] === now);
    const [left, right, top] = [Math.max(first - .5, -edge), Math.min(last + .5, edge), sizes.n - 1];
    chart.line([[left, 0], [left, top], [right, top], [right, 0]], { class: "la-band" });
    for (const [a, b, row] of steps) chart.line([[Math.max(a - .5, -edge), row], [Math.min(b + .5, edge), row]], { class: row === now ? "la-step la-now" : "la-step" });
    chart.dot(offset, now);
  }
  function update() {
    const now = bucket(offset, sizes), [first, last] = spans[now];
    position.set(offset, sign(offset));
    choice.set(now);
    const shared = first === last ? "which it has to itself"
      : first === -Infinity ? `shared by all offsets up to ${sign(last)}` : last === Infinity ? `shared by all offsets from ${sign(first)} on`
      : `shared by the offsets ${sign(first)} to ${sign(last)}`;
    result.textContent = `Offset ${sign(offset)}: bucket ${now} of ${sizes.n}, ${shared}.`;
    chart.draw();
    la.say(`${sizes.causal ? "Past only" : "Both directions"}, farthest ${sizes.max}. ${result.textContent}`);
  }
  resize({});
}
