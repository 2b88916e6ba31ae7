function draw({ tokens, names, terms, causal }) {
  const { el } = la, on = names.map(() => true);
  let query = tokens.length - 1, hide = causal, soft = false;

  const pick = i => { query = i; update(); };
  const map = la.matrix(tokens, pick);
  const reach = Math.max(...terms.flat(2).map(Math.abs)) || 1;
  const thumbs = terms.map((term, t) => {
    const cells = term.map(row => row.map(() => el("i")));
    const rows = cells.map((row, i) => el("div", la.hover(() => pick(i)), ...row));
    la.paint(cells, term, { reach });
    return { rows, node: el("div", { class: "la-term" },
      la.tick(names[t], true, checked => { on[t] = checked; update(); }),
      el("div", { class: "la-thumb", "aria-hidden": true, style: `--la-n:${tokens.length}` }, ...rows)) };
  });
  const title = el("b");
  la.show(
    el("div", { class: "la-term-mixer" },
      el("div", { class: "la-terms", style: `--la-terms:${names.length}` }, ...thumbs.map(thumb => thumb.node)),
      el("div", { class: "la-sum" }, title, map.node, el("div", {},
        la.tick("causal mask: no looking ahead", hide, checked => { hide = checked; update(); }),
        la.tick("softmax: weights", soft, checked => { soft = checked; update(); })))));

  // The lowest and the highest value that a sum can have.
  const ends = [Math.min, Math.max].map(most => most(0, ...tokens.flatMap((_, i) => tokens.map((_, j) =>
    terms.reduce((sum, term) => sum + most(0, term[i][j]), 0)))));
  function update() {
    const sum = tokens.map((_, i) => tokens.map((_, j) => terms.reduce((total, term, t) => total + (on[t] ? term[i][j] : 0), 0)));
    const rows = la.masked(sum, hide), chosen = names.filter((_, t) => on[t]);
    const written = map.set(soft ? rows.map(la.softmax) : rows, query, ends, soft);
    thumbs.forEach(({ rows, node }, t) => {
      node.classList.toggle("la-off", !on[t]);
      rows.forEach((row, i) => row.classList.toggle("la-chosen", i === query));
    });
    const what = chosen.length ? chosen.join(" + ") : "no term";
    title.textContent = what;
    la.say(`${what}, query ${query + 1}, ${tokens[query]}, ${hide ? "with" : "without"} the mask, ${soft ? "weights" : "scores"}: ${
      written.map((value, j) => `${value} on ${tokens[j]}`).join(", ")}.`);
  }
  update();
}
