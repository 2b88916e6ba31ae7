// The square |x|, |y| < reach, drawn in pixels, and drawn again when its width changes. `paint` draws its contents.
la.plane = (reach, paint) => {
  const svg = la.el("svg:svg", { "aria-hidden": true }), node = la.el("div", { class: "la-plane" }, svg);
  let size = 0;
  const x = v => (v / reach + 1) * size / 2, y = v => size - x(v);
  const within = (v, margin) => Math.min(Math.max(v, margin), size - margin);
  const unit = 10 ** Math.floor(Math.log10(reach / 1.01)), step = reach > 4 * unit ? 2 * unit : unit;
  const ticks = [...Array(Math.ceil(reach / step) - 1).keys()].map(i => +(step * (i + 1)).toPrecision(6));
  const plane = {
    node, x, y,
    add: (name, attributes, ...children) => svg.appendChild(la.el("svg:" + name, attributes, ...children)),
    line: (a, b, attributes) => plane.add("line", { x1: x(a[0]), y1: y(a[1]), x2: x(b[0]), y2: y(b[1]), ...attributes }),
    arrow(to, attributes) {
      const [tx, ty] = [x(to[0]), y(to[1])], angle = Math.atan2(ty - y(0), tx - x(0));
      const wing = turn => `L${tx - 9 * Math.cos(angle + turn)} ${ty - 9 * Math.sin(angle + turn)}`;
      plane.add("path", { d: `M${x(0)} ${y(0)}L${tx} ${ty}${wing(.45)}M${tx} ${ty}${wing(-.45)}`, fill: "none", ...attributes });
    },
    // A label beside a point, away from the origin or in a given direction; above or below the point if the frame is near.
    word(at, words, attributes, gap, [a, b] = at) {
      const text = plane.add("text", { "text-anchor": "middle", dy: ".35em", ...attributes }, words);
      const norm = Math.hypot(a, b) || 1, half = text.getComputedTextLength() / 2 + 3, rise = gap + 8;
      const wish = x(at[0]) + a / norm * (gap + half), left = within(wish, half);
      const up = left === wish ? -b / norm * rise : b > 0 ? -rise : rise;
      const top = y(at[1]) + up;
      text.setAttribute("x", left);
      text.setAttribute("y", top === within(top, 9) ? top : y(at[1]) - up);
    },
    draw() {
      size = node.clientWidth;
      if (!size) return;
      svg.replaceChildren();
      for (const v of ticks.flatMap(v => [v, -v])) {
        plane.line([v, -reach], [v, reach], { class: "la-grid" });
        plane.line([-reach, v], [reach, v], { class: "la-grid" });
      }
      plane.line([-reach, 0], [reach, 0], { class: "la-axis" });
      plane.line([0, -reach], [0, reach], { class: "la-axis" });
      const last = ticks.at(-1);
      const tick = (x, y, words) => plane.add("text", { class: "la-tick", x, y, "text-anchor": "middle" }, words);
      tick(x(last), size - 5, last);
      tick(x(-last), size - 5, `\u2212${last}`);
      tick(14, y(last) + 4, last);
      paint(plane);
    },
    // A point that can be dragged with mouse, pen or finger and moved with the arrow keys (with Shift, farther).
    handle({ name, step, at, move }) {
      const clip = v => Math.min(Math.max(Math.round(v / step) * step, -reach), reach);
      const dot = la.el("div", {
        class: "la-handle", tabindex: 0, role: "slider", "aria-roledescription": "point in the plane",
        "aria-label": name, "aria-valuemin": -reach, "aria-valuemax": reach,
        pointerdown(e) { dot.setPointerCapture(e.pointerId); },
        pointermove(e) {
          if (!dot.hasPointerCapture(e.pointerId)) return;
          const box = svg.getBoundingClientRect();
          move([e.clientX - box.left, box.bottom - e.clientY].map(v => clip((v / size * 2 - 1) * reach)));
        },
        keydown(e) {
          const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
          if (!way) return;
          e.preventDefault();
          move(at().map((v, i) => clip(v + way[i] * step * (e.shiftKey ? 25 : 5))));
        },
      });
      node.append(dot);
      return {
        set([a, b], words) {
          dot.style.left = `${x(a)}px`;
          dot.style.top = `${y(b)}px`;
          dot.setAttribute("aria-valuenow", a);
          dot.setAttribute("aria-valuetext", words);
        },
      };
    },
  };
  new ResizeObserver(plane.draw).observe(node);
  return plane;
};
