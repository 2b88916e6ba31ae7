// At a distance: the paper's curve, the mean size of the sums S_i = Σ_{j≤i} e^{i·distance·θ_j}; and the product of a
// query and a key whose pairs have the complex products h, [real parts, imaginary parts].
function decay(distance, width, base, [real, imaginary]) {
  const pairs = width / 2;
  let [sum, product, a, b] = [0, 0, 0, 0];
  for (let i = 0; i < pairs; i++) {
    const angle = distance * base ** (-2 * i / width), [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    [a, b] = [a + cos, b + sin];
    sum += Math.hypot(a, b);
    product += real[i] * cos - imaginary[i] * sin;
  }
  return { curve: sum / pairs, product };
}

// The largest |h_{i+1} - h_i|, with which the sum of the |S_i| bounds the product; after the last pair comes 0.
function largestStep(width, [real, imaginary]) {
  const next = (h, i) => i + 1 < width / 2 ? h[i + 1] : 0;
  return Math.max(...[...Array(width / 2).keys()].map(i => Math.hypot(next(real, i) - real[i], next(imaginary, i) - imaginary[i])));
}

// Of ones; or drawn by chance; or turned back by `aim` positions, so that all planes agree at that distance.
function pairs(kind, width, base, drawn, aim) {
  const of = f => [...Array(width / 2).keys()].map(f), back = i => -aim * base ** (-2 * i / width);
  if (!kind) return [of(() => 2), of(() => 0)];
  return drawn[kind - 1] ?? [of(i => 2 * Math.cos(back(i))), of(i => 2 * Math.sin(back(i)))];
}

function draw({ widths, bases, start, kinds, aim, farthest, drawn }) {
  const { el, fixed } = la;
  let [width, base] = [widths[start[0]], bases[start[1]]], kind = 0, distance = 100, values, rises, step;

  const pick = at => { distance = at; update(); };
  const chart = (name, low) => la.chart(chart => {
    const own = values.map(value => value[name]), rise = rises[name], [least, most] = [Math.min(low, ...own), Math.max(...own)], top = most + .08 * (most - least);
    chart.frame({ from: 0, to: farthest, name: "distance / positions" }, { from: least, to: top });
    if (rise > 0) {
      chart.line([[rise, least], [rise, top]], { class: "la-rise" });
      chart.word(rise, most, `first rises at ${rise}`, { class: "la-early" });
    }
    chart.line(own.entries(), { class: `la-${name}` });
    chart.dot(distance, own[distance], { class: `la-${name}` });
    chart.word(distance, own[distance], fixed(own[distance], 2));
  }, pick);
  const charts = [chart("curve", 0), chart("product", 0)];
  const row = la.slider({ name: "distance", min: 0, max: farthest, step: 1, input: pick });
  const set = changes => { ({ width, base, kind } = { width, base, kind, ...changes }); build(); };
  const many = la.choice("q and k", kinds, i => set({ kind: i }));
  const wide = la.choice("d_head", widths.map(String), i => set({ width: widths[i] }));
  const slow = la.choice("base", bases.map(String), i => set({ base: bases[i] }));
  const facts = la.facts(["the paper's curve", "what the bound allows", "the product"]), [curve, bound, product] = facts.values;
  la.show(
    el("div", { class: "la-decay-explorer" },
      la.head("The paper's curve", "the mean of |Sᵢ|, part of an upper bound"), charts[0].node,
      la.head("The product itself", "of the query and a key so many positions back"), charts[1].node,
      row.row,
      el("div", { class: "la-settings" }, ...[["q and k", many], ["d_head", wide], ["base", slow]].flatMap(([name, choice]) => [el("span", {}, name), choice.node])),
      facts.node));

  function build() {
    const h = pairs(kind, width, base, drawn, aim);
    values = [...Array(farthest + 1).keys()].map(r => decay(r, width, base, h));
    step = largestStep(width, h);
    rises = Object.fromEntries(["curve", "product"].map(name =>
      [name, values.findIndex((value, r) => r && value[name] > values[r - 1][name] + 1e-6)]));
    many.set(kind);
    wide.set(widths.indexOf(width));
    slow.set(bases.indexOf(base));
    update();
  }
  function update() {
    const now = values[distance], words = rise => rise > 0 ? `first rises at distance ${rise}` : `never rises up to ${farthest}`;
    row.set(distance, String(distance));
    curve.textContent = fixed(now.curve, 2);
    bound.textContent = fixed(now.curve * width / 2 * step, 2);
    product.textContent = fixed(now.product, 2);
    for (const { draw } of charts) draw();
    la.say(`A head ${width} wide, base ${base}, ${kinds[kind]}, distance ${distance}: the paper's curve is ${curve.textContent}, its bound ${
      bound.textContent}, the product ${product.textContent}. The curve ${words(rises.curve)}, the product ${words(rises.product)}.`);
  }
  build();
}
