// A drawing with axes, drawn again when its width changes. `paint` draws what is in it; `drag` is told where along the
// x axis mouse or finger are.
la.axes = (paint, drag) => {
  const svg = la.el("svg:svg", { "aria-hidden": true }), node = la.el("div", { class: "la-axes" }, svg);
  const scale = ({ from, to, log }, start, end) => {
    const f = log ? Math.log : v => v;
    const map = v => start + (f(v) - f(from)) / (f(to) - f(from)) * (end - start);
    map.back = p => from + (p - start) / (end - start) * (to - from);
    return map;
  };
  const chart = {
    node,
    add: (name, attributes, ...children) => svg.appendChild(la.el("svg:" + name, attributes, ...children)),
    path: (points, attributes) => chart.add("path", {
      d: "M" + points.map(([x, y]) => `${chart.x(x).toFixed(1)} ${chart.y(y).toFixed(1)}`).join("L"), fill: "none", ...attributes,
    }),
    // Axes, each with from, to, ticks and a name, which stands at its end.
    axes(x, y) {
      const wide = svg.clientWidth, high = svg.clientHeight, left = 40, foot = high - 36;
      chart.x = scale(x, left + 6, wide - 12);
      chart.y = scale(y, foot - 4, 24);
      const text = (words, attributes) => chart.add("text", attributes, words);
      const sign = v => String(v).replace("-", "−");
      for (const v of y.ticks) {
        chart.path([[x.from, v], [x.to, v]], { class: "la-grid" });
        text(sign(v), { x: left - 2, y: chart.y(v) + 4, "text-anchor": "end" });
      }
      for (const v of x.ticks) text(sign(v), { x: chart.x(v), y: foot + 14, "text-anchor": "middle" });
      text(y.name, { x: 4, y: 12 });
      text(x.name, { x: wide - 4, y: high - 4, "text-anchor": "end" });
    },
    draw() {
      if (!svg.clientWidth) return;
      svg.replaceChildren();
      paint(chart);
    },
  };
  if (drag) {
    svg.classList.add("la-drag");
    const move = e => drag(chart.x.back(e.clientX - svg.getBoundingClientRect().left));
    svg.addEventListener("pointerdown", e => { svg.setPointerCapture(e.pointerId); move(e); });
    svg.addEventListener("pointermove", e => { if (svg.hasPointerCapture(e.pointerId)) move(e); });
  }
  new ResizeObserver(chart.draw).observe(node);
  return chart;
};
