// ALiBi's slopes: geometric down to 2⁻⁸ for a power of two; otherwise those of the power of two below, then every second slope
// of the power above, from the first on.
function slopes(n) {
  const power = 2 ** Math.ceil(Math.log2(n)), all = [...Array(power).keys()].map(h => 2 ** (-8 * (h + 1) / power));
  return power === n ? all : [1, 0].flatMap(from => all.filter((_, h) => h % 2 === from)).slice(0, n);
}

function draw({ heads: first, most }) {
  const { el, fixed } = la;
  let n = first, head = Math.ceil(first / 2) - 1, all;

  const set = (count, which) => { n = count; head = Math.min(which, n - 1); update(); };
  const many = la.slider({ name: "heads", min: 1, max: most, step: 1, input: count => set(count, head) });
  const one = la.slider({ name: "head", hue: "position", min: 1, max: most, step: 1, input: h => set(n, h - 1) });
  const lines = la.chart(chart => {
    chart.frame({ from: 0, to: 256, ticks: [0, 64, 128, 192, 256], name: "tokens back" }, { from: -4, to: 0, ticks: [0, -1, -2, -3, -4], name: "bias" });
    const line = (m, kind) => { const end = Math.min(256, 4 / m); chart.line([[0, 0], [end, -m * end]], { class: kind }); };
    all.forEach(m => line(m, "la-line"));
    chart.line([[0, -1], [256, -1]], { class: "la-level" });
    line(all[head], "la-line la-now");
    chart.dot(1 / all[head], -1);
  });
  const dots = la.chart(chart => {
    chart.frame({ from: .5, to: n + .5, ticks: n < 9 ? all.map((_, h) => h + 1) : [1, Math.round(n / 2), n], name: "head" },
      { from: 1, to: 256, ticks: [1, 4, 16, 64, 256], name: "tokens back until −1", log: true });
    all.forEach((m, h) => chart.dot(h + 1, 1 / m, { r: h === head ? 7 : n > 40 ? 2.5 : 4, class: h === head ? "la-now" : h < lower() ? "la-dot" : "la-dot la-extra" }));
  }, h => set(n, h - 1));
  const lower = () => 2 ** Math.floor(Math.log2(n));
  const facts = la.facts(["slope", "tokens back until the bias is −1", "tokens back until the weight is halved"]);
  const [slope, reach, half] = facts.values, note = el("p");
  la.show(
    el("div", { class: "la-slopes-explorer" }, lines.node, dots.node),
    many.row, one.row, facts.node, note);

  function update() {
    all = slopes(n);
    const m = all[head];
    many.set(n, String(n));
    one.row.querySelector("input").max = n;
    one.set(head + 1, String(head + 1));
    slope.textContent = fixed(m, 4);
    reach.textContent = fixed(1 / m, 1);
    half.textContent = fixed(Math.LN2 / m, 1);
    note.textContent = lower() === n ? `${n} is a power of two: each slope is the one before times ${fixed(2 ** (-8 / n), 4)}.`
      : `${n} is no power of two: the first ${lower()} heads have the slopes of ${lower()} heads, the other ${n - lower()} every second one of ${2 * lower()}.`;
    lines.draw();
    dots.draw();
    la.say(`${n} head${n > 1 ? "s" : ""}, head ${head + 1}: slope ${slope.textContent}, bias −1 after ${reach.textContent} tokens, weight halved after ${half.textContent}. ${note.textContent}`);
  }
  update();
}
