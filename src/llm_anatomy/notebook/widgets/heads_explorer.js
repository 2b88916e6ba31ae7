// Where the number x[t, column] stands as [head, token, i]: split by heads, or by a plain reshape, which cuts the
// memory into pieces as it comes.
function index(t, column, tokens, width, heads, plain) {
  const d = width / heads, at = t * width + column;
  return plain
    ? [Math.floor(at / (tokens * d)), Math.floor(at / d) % tokens, at % d]
    : [Math.floor(column / d), t, column % d];
}

function draw({ tokens, width, heads: first, start }) {
  const { el } = la, range = n => [...Array(n).keys()], numbers = range(tokens * width);
  const counts = range(width + 1).filter(n => n && width % n === 0);
  let heads = first, step = 1, plain = false, [token, column] = start, panels = [];

  const stage = el("div", { class: "la-heads-explorer" }), address = el("code"), meaning = el("span");
  const set = changes => { ({ heads, step, plain } = { heads, step, plain, ...changes }); build(); };
  const steps = la.choice("step", ["1 project", "2 split", "3 attend", "4 join"], i => set({ step: i }));
  const many = la.choice("heads", counts.map(String), i => set({ heads: counts[i] }));
  la.show(
    el("div", { class: "la-settings" }, el("span", {}, "step"), steps.node, el("span", {}, "heads"), many.node,
      la.tick("plain reshape to (heads, tokens, d_head) instead", plain, on => set({ plain: on }))),
    stage, el("p", { class: "la-address" }, address, meaning));

  // A grid of all numbers: rows are tokens; the columns stand by head, apart (`split`) or in one block. Each cell holds
  // its token and column in x, wherever it stands.
  function panel(name, split) {
    const d = width / heads, cells = [];
    for (const n of numbers) {
      const t = Math.floor(n / width), c = n % width, [h, row, i] = split ? index(t, c, tokens, width, heads, plain) : [0, t, c];
      const at = split ? h * d + i : c, own = Math.floor(c / d);
      (cells[row] ??= [])[at] = el("div", {
        class: `la-cell la-head-${own % 4}${at && at % d === 0 ? " la-gap" : ""}`, role: "gridcell",
        "aria-label": `${name}[${split ? [h, row, i].join(", ") : `${t}, ${c}`}]`,
        ...la.hover(() => pick(t, c)),
        focus() { pick(t, c); },
        keydown(e) {
          const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[e.key] ?? [];
          if (down === undefined) return;
          e.preventDefault();
          cells[row + down]?.[at + right]?.focus();
        },
      }, `${t},${c}`);
    }
    const bar = el("div", { class: "la-line la-bar", "aria-hidden": true }, el("small", {}, "h="), ...range(width).map(c =>
      el("small", { class: c && c % d === 0 ? "la-gap" : "" }, c % d ? "" : c / d)));
    const grid = el("div", { role: "grid", "aria-label": name, class: split ? "la-apart" : "" }, ...cells.map((row, t) =>
      el("div", { class: "la-line", role: "row" }, el("small", { role: "rowheader" }, `t=${t}`), ...row)));
    const shape = split ? `(heads, tokens, d_head) = (${heads}, ${tokens}, ${d})` : `(tokens, columns) = (${tokens}, ${width})`;
    stage.append(el("div", { class: split ? "la-apart" : "" }, el("b", {}, name), el("small", {}, shape), bar, grid));
    panels.push({ cells, split });
  }

  function build() {
    panels = [];
    stage.replaceChildren();
    stage.style.setProperty("--la-heads", heads);
    stage.style.setProperty("--la-need", `${20 + 24 * width + 10 * heads}px`);
    const shown = [[["x"]], [["x"], ["heads", true]], [["heads", true], ["attended", true]], [["attended", true], ["joined"]]][step];
    for (const [name, split] of shown) panel(name, split);
    steps.set(step);
    many.set(counts.indexOf(heads));
    pick(token, column);
  }

  function pick(t, c) {
    [token, column] = [t, c];
    const d = width / heads, [h, row, i] = index(t, c, tokens, width, heads, plain), own = Math.floor(c / d);
    panels.forEach(({ cells, split }, n) => cells.forEach((line, r) => line.forEach((cell, at) => {
      const same = split ? r === row && at === h * d + i : r === t && at === c;
      const mixed = step === 2 && n === 0;
      cell.classList.toggle("la-same", same && !mixed);
      cell.classList.toggle("la-mixed", mixed && at === h * d + i);
      cell.tabIndex = same ? 0 : -1;
    })));
    const flat = `[${t}, ${own}·${d} + ${c % d}]`, deep = `[${h}, ${row}, ${i}]`;
    const wrong = numbers.filter(n => {
      const [a, b] = [Math.floor(n / width), n % width];
      return String(index(a, b, tokens, width, heads, true)) !== String(index(a, b, tokens, width, heads, false));
    }).length;
    const sources = numbers.map(n => [Math.floor(n / width), n % width])
      .filter(([a, b]) => { const p = index(a, b, tokens, width, heads, plain); return p[0] === h && p[2] === i; });
    const astray = h !== own || row !== t || i !== c % d;
    const verdict = `${astray ? `It belongs to head ${own}, row ${t}.` : "This one stands where it belongs."} Of ${numbers.length} numbers, ${wrong} stand elsewhere.`;
    const spoilt = plain && sources.some(([, b]) => b !== c);
    address.textContent = [
      `x${flat}`, `x${flat} ↔ heads${deep}`, `attended${deep} = Σₛ α[${h}, ${row}, s] · heads[${h}, s, ${i}]`, `attended${deep} ↔ joined${flat}`,
    ][step];
    meaning.textContent = [
      `Column ${c} is number ${c % d} of head ${own}.`,
      plain ? `The reshape puts it into head ${h}, row ${row}. ${verdict}` : `The same number, in head ${h}, and still in the row of token ${t}.`,
      spoilt ? `It should mix column ${c} of every token. The reshape gives it ${sources.map(([a, b]) => `x[${a}, ${b}]`).join(", ")}.`
        : `It mixes column ${c} of the tokens: a head mixes rows, and stays within its columns.`,
      spoilt ? "A reshape puts it back and the shapes betray nothing, but its head mixed the wrong numbers."
        : `Row ${t} is token ${t} again, its heads laid end to end.`,
    ][step];
    la.say(`${tokens} tokens, ${heads} heads of width ${d}: ${address.textContent}. ${meaning.textContent}`);
  }
  build();
}
