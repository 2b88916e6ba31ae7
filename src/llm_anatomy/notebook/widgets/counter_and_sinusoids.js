// Digit k of a number, and the period of the pair beside it: the digit's own, 2^(k+1), or the paper's.
const digit = (number, k) => Math.floor(number / 2 ** k) % 2;
const period = (k, bits, paper) => paper ? 2 * Math.PI * 10000 ** (k / bits) : 2 ** (k + 1);

// Sine and cosine of the pair: a hand that turns once in its period.
function hand(number, k, bits, paper) {
  const angle = paper ? number / 10000 ** (k / bits) : 2 * Math.PI * number / 2 ** (k + 1);
  return [Math.sin(angle), Math.cos(angle)];
}

function draw({ bits, start }) {
  const { el, fixed } = la, count = 2 * 2 ** bits, digits = [...Array(bits).keys()];
  let number = start, paper = false;
  const graph = () => el("svg:svg", { preserveAspectRatio: "none", "aria-hidden": true });
  const drag = node => {
    la.drag(node, e => {
      const box = node.getBoundingClientRect();
      go(Math.min(Math.max(Math.floor((e.clientX - box.left) / box.width * count), 0), count - 1));
    });
    return node;
  };
  const go = value => { number = value; update(); };

  const rows = digits.map(k => {
    const own = { bit: el("b"), strip: graph(), waves: graph(), wave: [0, 1].map(i => el("svg:path", { class: i ? "la-cosine" : "la-sine" })), every: el("small"), values: [el("small"), el("small")] };
    own.strip.setAttribute("viewBox", `0 0 ${count} 1`);
    own.waves.setAttribute("viewBox", `0 -1.1 ${count} 2.2`);
    const ones = [...Array(count).keys()].filter(i => digit(i, k)).map(i => `M${i} 0h1v1h-1z`).join("");
    own.marks = [0, -1.1].map(top => el("svg:path", { class: "la-mark", d: `M0 ${top}v3` }));
    const [anew, again] = [0, -1.1].map(top => el("svg:path", { class: "la-anew", d: `M${count / 2} ${top}v3` }));
    own.strip.append(el("svg:path", { class: "la-ones", d: ones }), anew, own.marks[0]);
    own.waves.append(el("svg:path", { class: "la-zero", d: `M0 0H${count}` }), again, ...own.wave, own.marks[1]);
    own.hand = el("svg:path", { class: "la-hand" });
    own.half = el("svg:path", { class: "la-half", d: "M-1 0A1 1 0 0 0 1 0z" });
    own.clock = el("svg:svg", { viewBox: "-1.15 -1.15 2.3 2.3", "aria-hidden": true }, own.half, el("svg:circle", { r: 1 }), own.hand);
    own.node = el("div", { class: "la-digit" }, el("div", {}, el("span", {}, `digit ${k}`, own.every), own.bit), drag(own.strip), drag(own.waves),
      el("div", {}, own.clock, el("span", {}, ...own.values)));
    return own;
  });
  const row = la.slider({ name: "number", hue: "position", min: 0, max: count - 1, step: 1, input: go }), word = el("b"), verdict = el("small");
  la.show(
    el("div", { class: "la-counter-and-sinusoids" },
      el("div", { class: "la-digit la-heads" }, word, el("small", {}, "where the digit is 1"),
        el("small", {}, "sine (solid) and cosine (dashed)"), el("small", {}, "as a hand")),
      ...rows.map(own => own.node), verdict),
    row.row,
    el("div", { class: "la-settings" }, la.tick("the paper's periods, 2π to almost 2π · 10000", paper, on => { paper = on; build(); })));

  // The cell of a number has width one, and its curves are evaluated at the middle of the cell.
  function build() {
    const fine = [...Array(16 * count + 1).keys()].map(i => i / 16);
    rows.forEach((own, k) => {
      const at = fine.map(x => hand(x - .5, k, bits, paper));
      own.wave.forEach((path, i) => path.setAttribute("d", "M" + fine.map((x, j) => `${x} ${(-at[j][i]).toFixed(3)}`).join("L")));
      own.half.style.display = paper ? "none" : "";
      own.every.textContent = `period ${fixed(period(k, bits, paper), paper ? 1 : 0)}`;
    });
    verdict.textContent = paper ? `The counter starts anew at ${count / 2}. The paper's hands never all return to where they were.`
      : `A digit is 1 while its hand is in the shaded half of its turn. At ${count / 2}, counter and hands start anew.`;
    update();
  }
  function update() {
    const written = digits.map(k => digit(number, k)).reverse().join(""), rest = number % 2 ** bits;
    rows.forEach((own, k) => {
      const [sine, cosine] = hand(number, k, bits, paper);
      own.bit.textContent = digit(number, k);
      for (const mark of own.marks) mark.setAttribute("transform", `translate(${number + .5})`);
      own.hand.setAttribute("d", `M0 0L${cosine} ${-sine}`);
      own.values.forEach((node, i) => { node.textContent = `${["sin", "cos"][i]} ${fixed([sine, cosine][i], 2)}`; });
    });
    word.textContent = `${number} = ${written}`;
    row.set(number, String(number));
    const each = digits.map(k => {
      const [sine, cosine] = hand(number, k, bits, paper).map(v => fixed(v, 2));
      return `${fixed(period(k, bits, paper), paper ? 2 : 0)}: ${sine} and ${cosine}`;
    });
    la.say(`Number ${number} is written ${written}${rest === number ? "" : `, as ${rest} is`}. Sine and cosine, by period: ${each.join("; ")}.`);
  }
  build();
}
