// Entry j of the vector of a position: sine and cosine in turn, pair t at the speed 10000^(-2t/width).
function entry(position, j, width) {
  const angle = position / 10000 ** ((j - j % 2) / width);
  return j % 2 ? Math.cos(angle) : Math.sin(angle);
}

// What two positions have in common depends on their distance alone: their dot product, and how far each pair is apart.
function compare(distance, width) {
  const angles = [...Array(width / 2).keys()].map(t => distance / 10000 ** (2 * t / width));
  return {
    product: angles.reduce((sum, angle) => sum + Math.cos(angle), 0),
    apart: angles.map(angle => 2 * Math.abs(Math.sin(angle / 2))),
  };
}

function draw({ positions, widths, start, pair }) {
  const { el, fixed } = la, names = ["first", "second"], levels = 12;
  let width = widths[start], together = false, shown, curve, rise;
  const clip = (v, low, high) => Math.min(Math.max(v, low), high), across = e => {
    const box = map.getBoundingClientRect();
    return clip(Math.floor((e.clientY - box.top) / box.height * positions), 0, positions - 1);
  };

  // The map is one path for each shade, so that it follows the colours of the page.
  const picture = el("svg:svg", { preserveAspectRatio: "none", "shape-rendering": "crispEdges" });
  const marks = names.map(name => el("i", { class: `la-mark la-${name}` }));
  const bars = el("svg:svg", { class: "la-apart", preserveAspectRatio: "none" });
  const map = el("div", { class: "la-encoding" }, picture, ...marks), tags = names.map(() => el("b", { class: "la-tag" }));
  let dragged = 0;
  la.drag(map, e => move(dragged, across(e)), e => { // the nearer of the two
    dragged = +(Math.abs(across(e) - pair[1]) < Math.abs(across(e) - pair[0]));
  });
  tags.forEach((tag, i) => la.drag(tag, e => move(i, across(e))));
  const gutter = i => el("div", {}, tags[i]);
  const chart = la.chart(chart => {
    const last = positions - 1, low = Math.min(0, ...curve), k = Math.abs(pair[0] - pair[1]);
    chart.frame({ from: 0, to: last, name: "distance / positions" }, { from: low, to: width / 2 });
    chart.line(curve.entries(), { class: "la-curve" });
    if (rise) {
      chart.line([[rise, low], [rise, width / 2]], { class: "la-rise" });
      chart.word(rise, width / 2 * .94, `first rises at ${rise}`);
    }
    chart.dot(0, curve[0], { r: 5 });
    chart.dot(k, curve[k]);
    chart.word(k, curve[k], fixed(curve[k], 2));
  });

  const rows = names.map((name, i) => la.slider({ name: `${name} position`, min: 0, max: positions - 1, step: 1, input: v => move(i, v) }));
  const choice = la.choice("d_model", widths.map(String), i => { width = widths[i]; build(); });
  const facts = la.facts(["distance", "", "fastest pair differs by", "slowest pair differs by"]);
  const [distance, product, fastest, slowest] = facts.values, hint = el("span"), key = el("small", { class: "la-scale" }, "\u22121", el("i"), "1");
  la.show(
    el("div", { class: "la-encoding-explorer" },
      la.head("The encoding", hint, key),
      el("div", { class: "la-stage", "aria-hidden": true }, gutter(0), map, gutter(1)),
      la.head("Difference of the two rows", "in each pair of coordinates, from 0 to 2"),
      el("div", { class: "la-stage", "aria-hidden": true }, el("div"), bars, el("div")),
      ...rows.map(row => row.row),
      el("div", { class: "la-settings" }, el("span", {}, "d_model"), choice.node,
        la.tick("move both, at the same distance", together, on => { together = on; })),
      facts.node, la.head("Dot product against distance", "of any two positions so far apart"),
      chart.node));

  function move(which, position) {
    if (together) {
      const step = clip(position - pair[which], -Math.min(...pair), positions - 1 - Math.max(...pair));
      pair = pair.map(v => v + step);
    } else pair = pair.map((v, i) => i === which ? position : v);
    update();
  }
  // Columns narrower than two pixels would blur: of a wide encoding, every second pair is drawn, or every fourth …
  function shade() {
    let step = 1;
    while (width / step > Math.max(map.clientWidth, 8) / 2) step *= 2;
    const columns = [...Array(width).keys()].filter(j => (j >> 1) % step === 0), shades = {}, key = `${width} ${step}`;
    if (key === shown) return;
    shown = key;
    columns.forEach((j, at) => {
      for (let i = 0, from = 0, shade; i <= positions; i++) {
        const next = i < positions ? Math.round(levels * entry(i, j, width)) : NaN;
        if (next === shade) continue;
        if (shade) shades[shade] = `${shades[shade] ?? ""}M${at} ${from}h1V${i}h-1z`;
        [from, shade] = [i, next];
      }
    });
    picture.setAttribute("viewBox", `0 0 ${columns.length} ${positions}`);
    picture.replaceChildren(...Object.entries(shades).map(([shade, d]) =>
      el("svg:path", { d, class: shade < 0 ? "la-minus" : "la-plus", style: `--la-share:${100 * Math.abs(shade) / levels}%` })));
    hint.textContent = `a row for each position, a column for each coordinate${step > 1 ? `; one pair in ${step} is drawn` : ""}`;
  }
  function build() {
    shade();
    bars.setAttribute("viewBox", `0 0 ${width} 2`);
    curve = [...Array(positions).keys()].map(k => compare(k, width).product);
    rise = curve.findIndex((v, k) => k && v > curve[k - 1] + 1e-6);
    if (rise < 0) rise = 0;
    choice.set(widths.indexOf(width));
    update();
  }
  function update() {
    const k = Math.abs(pair[0] - pair[1]), now = compare(k, width);
    pair.forEach((position, i) => {
      marks[i].style.top = `${100 * position / positions}%`;
      tags[i].style.top = `${100 * (position + .5) / positions}%`;
      marks[i].style.height = `${100 / positions}%`;
      tags[i].textContent = position;
      rows[i].set(position, String(position));
    });
    bars.replaceChildren(el("svg:path", { d: now.apart.map((v, t) => `M${2 * t} 2v${-v}h2v${v}z`).join("") }));
    distance.textContent = k;
    facts.labels[1].textContent = `dot product, at most ${width / 2}`;
    product.textContent = fixed(now.product, 2);
    fastest.textContent = fixed(now.apart[0], 4);
    slowest.textContent = fixed(now.apart.at(-1), 6);
    chart.draw();
    la.say(`Positions ${pair[0]} and ${pair[1]}, ${width} wide: distance ${k}, dot product ${product.textContent} of at most ${
      width / 2}. The fastest pair differs by ${fastest.textContent}, the slowest by ${slowest.textContent}. The dot product ${
      rise ? `first rises again at distance ${rise}` : `falls at each step up to ${positions - 1}`}.`);
  }
  build();
  new ResizeObserver(shade).observe(map);
}
