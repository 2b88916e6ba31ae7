// For each plane the query turned by its position m, the key turned by its position n, the angle from one to the other,
// and what the plane gives to the product.
function turn([query, key], m, n, base) {
  const rotate = (vector, i, position) => {
    const angle = position * base ** (-2 * i / vector.length), [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const [a, b] = vector.slice(2 * i, 2 * i + 2);
    return [a * cos - b * sin, b * cos + a * sin];
  };
  return [...Array(query.length / 2).keys()].map(i => {
    const q = rotate(query, i, m), k = rotate(key, i, n), share = q[0] * k[0] + q[1] * k[1];
    return { q, k, share, angle: Math.atan2(q[0] * k[1] - q[1] * k[0], share) };
  });
}

function draw({ base, last, vectors, at }) {
  const { el, fixed } = la, names = ["query", "key"], width = vectors[0][0].length;
  const clip = (v, low, high) => Math.min(Math.max(v, low), high);
  let alike = true, together = false;

  // A dial for each plane, y upwards, its radius the longest arrow.
  const dials = [...Array(width / 2).keys()].map(i => {
    const starts = names.map(name => el("svg:path", { class: `la-${name} la-start` }));
    const arrows = names.map(name => el("svg:path", { class: `la-${name}` })), arc = el("svg:path", { class: "la-arc" });
    const ring = el("svg:circle", { r: 1 }), svg = el("svg:svg", { viewBox: "-1.1 -1.1 2.2 2.2", "aria-hidden": true }, ring, ...starts, arc, ...arrows);
    const [apart, share, bar] = ["span", "b", "i"].map(name => el(name));
    const node = el("div", {}, el("div", {}, el("b", {}, `plane ${i}`), el("small", {}, ` θ = ${+(base ** (-2 * i / width)).toPrecision(3)}`)), svg,
      el("small", {}, apart), el("span", {}, "share ", share), el("div", { class: "la-share", "aria-hidden": true }, bar));
    return { node, starts, arrows, arc, apart, share, bar };
  });
  const rows = names.map((name, i) => la.slider({ name: `${name} at`, hue: name, min: 0, max: last, step: 1, input: v => move(i, v) }));
  const kinds = la.choice("q and k", ["alike", "unlike"], i => { alike = !i; update(); });
  const facts = la.facts(["offset, key − query", "product, the sum of the shares", `score, product / √${width}`]);
  const [offset, product, score] = facts.values;
  la.show(
    el("div", { class: "la-rotor-explorer" }, ...dials.map(dial => dial.node)),
    ...rows.map(row => row.row),
    el("div", { class: "la-settings" }, el("span", {}, "q and k"), kinds.node, la.tick("move both together", together, on => { together = on; })),
    facts.node);

  function move(which, position) {
    const step = together ? clip(position - at[which], -Math.min(...at), last - Math.max(...at)) : position - at[which];
    at = at.map((v, i) => together || i === which ? v + step : v);
    update();
  }
  function update() {
    const pair = vectors[+alike], planes = turn(pair, ...at, base), starts = turn(pair, 0, 0, base);
    const reach = Math.max(...planes.flatMap(({ q, k }) => [Math.hypot(...q), Math.hypot(...k)]));
    const most = Math.max(...planes.map(({ q, k }) => Math.hypot(...q) * Math.hypot(...k)));
    const arrow = ([x, y], wing) => {
      const [a, b] = [x / reach, -y / reach], long = Math.hypot(a, b), angle = Math.atan2(b, a), w = Math.min(.16, .5 * long);
      const tip = turn => `L${a - w * Math.cos(angle + turn)} ${b - w * Math.sin(angle + turn)}`;
      return `M0 0L${a} ${b}${wing ? `${tip(.45)}M${a} ${b}${tip(-.45)}` : ""}`;
    };
    planes.forEach(({ q, k, share, angle }, i) => {
      const dial = dials[i], from = Math.atan2(q[1], q[0]), r = .32, on = a => `${r * Math.cos(a)} ${-r * Math.sin(a)}`;
      dial.starts.forEach((path, j) => path.setAttribute("d", arrow(j ? starts[i].k : starts[i].q)));
      dial.arrows.forEach((path, j) => path.setAttribute("d", arrow(j ? k : q, true)));
      dial.arc.setAttribute("d", `M${on(from)}A${r} ${r} 0 0 ${angle > 0 ? 0 : 1} ${on(from + angle)}`);
      dial.apart.textContent = `${fixed(Math.abs(angle) * 180 / Math.PI, 1)}° apart`;
      dial.share.textContent = fixed(share, 2);
      dial.bar.className = share < 0 ? "la-minus" : "";
      dial.bar.style.width = `${50 * Math.abs(share) / most}%`;
    });
    const sum = planes.reduce((total, { share }) => total + share, 0);
    rows.forEach((row, i) => row.set(at[i], String(at[i])));
    kinds.set(+!alike);
    offset.textContent = fixed(at[1] - at[0], 0);
    product.textContent = fixed(sum, 2);
    score.textContent = fixed(sum / Math.sqrt(width), 2);
    la.say(`Query at position ${at[0]}, key at ${at[1]}, offset ${offset.textContent}, q and k ${alike ? "alike" : "unlike"}. The planes are ${
      dials.map(dial => dial.apart.textContent.replace(" apart", "")).join(", ")} apart and give ${
      dials.map(dial => dial.share.textContent).join(", ")}: the product is ${product.textContent}, the score ${score.textContent}.`);
  }
  update();
}
