// A curve over whole numbers in a frame with axes, drawn in pixels, and again when the width changes. `paint` is given
// the chart and begins with `frame`; `pick`, if there is one, gets the number at which mouse or finger point (this needs
// "parts").
la.chart = (paint, pick) => {
  const svg = la.el("svg:svg", { "aria-hidden": true }), node = la.el("div", { class: "la-chart" }, svg);
  const round = span => { const unit = 10 ** Math.floor(Math.log10(span)); return unit * [1, 2, 5, 10].find(n => n * unit >= span); };
  let wide = 0, high = 0, x, y, back;
  const chart = {
    node,
    add: (name, attributes, ...children) => svg.appendChild(la.el("svg:" + name, attributes, ...children)),
    frame([left, right], [bottom, top]) {
      const scale = (from, to, a, b) => v => a + (v - from) / (to - from) * (b - a);
      x = scale(left, right, 46, wide - 14);
      y = scale(bottom, top, high - 24, 18);
      back = px => Math.min(Math.max(Math.round(left + (px - 46) / (wide - 60) * (right - left)), left), right);
      const tick = (v, attributes) => chart.add("text", { class: "la-tick", ...attributes }, String(+v.toPrecision(6)).replace("-", "\u2212"));
      const steps = (from, to, step) => [...Array(Math.floor(to / step + 1e-9) - Math.ceil(from / step) + 1).keys()].map(i => (Math.ceil(from / step) + i) * step);
      for (const v of steps(bottom, top, round((top - bottom) / 4))) {
        chart.add("path", { class: v ? "la-grid" : "la-axis", d: `M46 ${y(v)}H${wide - 14}` });
        tick(v, { x: 40, y: y(v) + 4, "text-anchor": "end" });
      }
      for (const v of steps(left, right, round((right - left) / (wide > 500 ? 8 : 5)))) tick(v, { x: x(v), y: high - 6, "text-anchor": "middle" });
    },
    line(values, attributes) {
      chart.add("path", { fill: "none", ...attributes, d: "M" + values.map((v, i) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("L") });
    },
    dot: (i, v, attributes) => chart.add("circle", { cx: x(i), cy: y(v), r: 6, ...attributes }),
    upright: (i, attributes) => chart.add("path", { ...attributes, d: `M${x(i)} 18V${high - 24}` }),
    // A word above a point, or below it where the frame ends.
    word(i, v, words, attributes) {
      const text = chart.add("text", { "text-anchor": "middle", ...attributes }, words), half = text.getComputedTextLength() / 2;
      text.setAttribute("x", Math.min(Math.max(x(i), 46 + half), wide - 2 - half));
      text.setAttribute("y", y(v) - 12 < 14 ? y(v) + 24 : y(v) - 12);
    },
    draw() {
      [wide, high] = [node.clientWidth, node.clientHeight];
      if (!wide) return;
      svg.replaceChildren();
      paint(chart);
    },
  };
  if (pick) {
    const at = e => pick(back(e.clientX - svg.getBoundingClientRect().left));
    node.classList.add("la-picked");
    la.drag(node, at);
  }
  new ResizeObserver(chart.draw).observe(node);
  return chart;
};
