// What a scheme adds to the score of query i and key j, or what it makes of it where it adds nothing.
function score({ name, part }, i, j, { width, rotary, base, slopes, clipped, t5, learned }) {
  const offset = j - i, range = n => [...Array(n).keys()];
  const waves = (d, planes) => planes.reduce((sum, c) => sum + Math.cos(offset / base ** (2 * c / d)), 0);
  return {
    none: () => 0,
    sinusoidal: () => waves(width, range(width / 2)) / Math.sqrt(width),
    learned: () => learned[i][j],
    "clipped bias"() {
      const far = (clipped[part].length - 1) / 2;
      return clipped[part][Math.min(Math.max(offset, -far), far) + far];
    },
    T5: () => t5[part][Math.max(-offset, 0)],
    ALiBi: () => -slopes[part] * Math.abs(offset),
    RoPE: () => 2 * waves(rotary, part ? [part - 1] : range(rotary / 2)) / Math.sqrt(rotary),
  }[name]();
}

function draw(data) {
  const { el } = la, { n, schemes } = data, positions = [...Array(n).keys()], words = positions.map(String);
  let at = data.start, part = 0, query = data.query, hide = false, soft = false;

  const map = la.matrix(words, i => { query = i; update(); });
  const names = la.choice("scheme", schemes.map(scheme => scheme.name), i => { at = i; part = 0; build(); });
  const parts = el("div", { class: "la-parts" }), formula = el("code"), note = el("span");
  la.show(
    names.node,
    el("div", { class: "la-scheme-explorer" }, map.node,
      el("div", {}, parts, el("p", {}, formula, note),
        la.tick("causal mask: no looking ahead", hide, on => { hide = on; update(); }),
        la.tick("softmax: weights where the words say nothing", soft, on => { soft = on; update(); }))));

  const grid = p => positions.map(i => positions.map(j => score({ name: schemes[at].name, part: p }, i, j, data)));
  let several, ends;
  function build() {
    const { kind, parts: labels, formula: symbols, note: words } = schemes[at];
    several = la.choice(kind, labels, i => { part = i; update(); });
    parts.replaceChildren(...labels.length > 1 ? [el("span", {}, kind), several.node] : []);
    formula.replaceChildren(...symbols.split(/[{}]/).map((piece, i) => i % 2 ? el("sub", {}, piece) : piece));
    note.textContent = words;
    const all = labels.flatMap((_, p) => grid(p).flat());
    ends = [Math.min(0, ...all), Math.max(0, ...all)];
    names.set(at);
    update();
  }
  function update() {
    const { name, kind, parts: labels } = schemes[at], rows = la.masked(grid(part), hide);
    several.set(part);
    const written = map.set(soft ? rows.map(la.softmax) : rows, query, ends, soft);
    la.say(`${name}${labels.length > 1 ? `, ${kind} ${labels[part]}` : ""}, query ${query}, ${hide ? "with" : "without"} the mask, ${
      soft ? "weights" : "scores"}: ${written.map((value, j) => `${value} at key ${j}`).join(", ")}.`);
  }
  build();
}
