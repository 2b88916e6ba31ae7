// Lines and dots in a frame with axes, drawn in pixels, and drawn again when the width changes. `paint` is called with the chart
// and begins with `frame`; `pick`, if given, is called with the integer on the x axis to which mouse or finger points. Needs
// "parts".
la.chart = (paint, pick) => {
  const svg = la.el("svg:svg", { "aria-hidden": true }), node = la.el("div", { class: "la-chart" }, svg);
  const start = 46, margin = 14, ceiling = 24;
  let wide = 0, foot = 0, ends, x, y;
  const add = (name, attributes, ...children) => svg.appendChild(la.el("svg:" + name, attributes, ...children));
  const scale = ({ from, to, log }, a, b) => {
    const f = log ? Math.log : v => v;
    return v => a + (f(v) - f(from)) / (f(to) - f(from)) * (b - a);
  };
  // About so many round numbers.
  const steps = ({ from, to }, many) => {
    const span = (to - from) / many, unit = 10 ** Math.floor(Math.log10(span)), step = unit * [1, 2, 5, 10].find(n => n * unit >= span);
    return [...Array(Math.floor(to / step + 1e-9) - Math.ceil(from / step) + 1).keys()].map(i => (Math.ceil(from / step) + i) * step);
  };
  const chart = {
    node,
    // Each axis runs from `from` to `to`, on a logarithmic scale if `log`; it may have given ticks, and a name at its end.
    frame(across, up) {
      [ends, x, y] = [across, scale(across, start, wide - margin), scale(up, foot, ceiling)];
      const tick = (v, attributes) => add("text", { class: "la-tick", ...attributes }, String(+v.toPrecision(6)).replace("-", "\u2212"));
      for (const v of up.ticks ?? steps(up, 4)) {
        chart.line([[across.from, v], [across.to, v]], { class: v ? "la-grid" : "la-axis" });
        tick(v, { x: start - 6, y: y(v) + 4, "text-anchor": "end" });
      }
      for (const v of across.ticks ?? steps(across, wide > 500 ? 8 : 5)) tick(v, { x: x(v), y: foot + 18, "text-anchor": "middle" });
      add("text", { x: 4, y: 12 }, up.name ?? "");
      add("text", { x: wide - 4, y: foot + 36, "text-anchor": "end" }, across.name ?? "");
    },
    line(points, attributes) {
      const d = "M" + Array.from(points, ([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");
      add("path", { fill: "none", ...attributes, d });
    },
    dot: (a, b, attributes) => add("circle", { cx: x(a), cy: y(b), r: 7, ...attributes }),
    // A label above a point, or below it at the edge of the frame.
    word(a, b, words, attributes) {
      const text = add("text", { "text-anchor": "middle", ...attributes }, words), half = text.getComputedTextLength() / 2;
      text.setAttribute("x", Math.min(Math.max(x(a), start + half), wide - 2 - half));
      text.setAttribute("y", y(b) - 12 < 14 ? y(b) + 24 : y(b) - 12);
    },
    draw() {
      [wide, foot] = [node.clientWidth, node.clientHeight - 40];
      if (!wide) return;
      svg.replaceChildren();
      paint(chart);
    },
  };
  if (pick) {
    node.classList.add("la-picked");
    la.drag(node, e => {
      const share = (e.clientX - svg.getBoundingClientRect().left - start) / (wide - margin - start);
      pick(Math.round(Math.min(Math.max(ends.from + share * (ends.to - ends.from), ends.from), ends.to)));
    });
  }
  new ResizeObserver(chart.draw).observe(node);
  return chart;
};
