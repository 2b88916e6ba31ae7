// Softmax of a row of scores; nothing for those that are −∞.
la.softmax = scores => {
  const best = Math.max(...scores), powers = scores.map(score => Math.exp(score - best));
  const total = powers.reduce((a, b) => a + b);
  return powers.map(power => power / total);
};

// Hides the future, if asked: the scores of later keys become −∞.
la.masked = (rows, hide) => rows.map((row, i) => row.map((score, j) => hide && j > i ? -Infinity : score));

// Paints cells of a map: signed numbers, on a scale up to `reach` either way, or weights, from 0 to 1 (`soft`).
la.paint = (cells, rows, { reach = 1, soft = false }) => cells.forEach((line, i) => line.forEach((cell, j) => {
  const value = rows[i][j], share = soft ? value : Math.abs(value) / reach;
  cell.className = soft ? "la-soft" : value === -Infinity ? "la-hidden" : value < 0 ? "la-minus" : "";
  cell.style.setProperty("--la-share", `${(100 * Math.min(share || 0, 1)).toFixed(1)}%`);
}));

// A map with one row per query and one column per key, and the chosen row as bars below. The mouse and a tap pick a row;
// the words on its left are dragged, and moved by the arrow keys.
la.matrix = (words, pick) => {
  const { el, fixed } = la, n = words.length, long = words.some(word => word.length > 2);
  const some = [...words.keys()].map(i => (long || n < 15 || i % 2 === 0 ? words[i] : "")); // numbers in narrow columns
  const cells = words.map(() => words.map(() => el("i")));
  const marks = words.map(word => el("span", {}, word));
  const rows = cells.map((line, i) => el("div", { "aria-hidden": true, ...la.hover(() => pick(i)), click: () => pick(i) }, marks[i], ...line));
  const bars = words.map(() => el("i")), numbers = words.map(() => el("b"));
  const zero = el("hr");
  const first = Math.max(44, 16 + 7.5 * Math.max(...words.map(word => word.length)));
  let chosen = 0;
  const strip = el("div", {
    class: "la-strip", tabindex: 0, role: "slider", "aria-label": "query", "aria-orientation": "vertical",
    "aria-valuemin": 0, "aria-valuemax": n - 1,
    pointerdown(e) { strip.setPointerCapture(e.pointerId); strip.onpointermove(e); },
    keydown(e) {
      const to = { ArrowUp: chosen - 1, ArrowLeft: chosen - 1, ArrowDown: chosen + 1, ArrowRight: chosen + 1, Home: 0, End: n - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      pick(Math.min(Math.max(to, 0), n - 1));
    },
  });
  strip.onpointermove = e => {
    if (!strip.hasPointerCapture(e.pointerId)) return;
    const box = strip.getBoundingClientRect();
    pick(Math.min(Math.max(Math.floor((e.clientY - box.top) / box.height * n), 0), n - 1));
  };
  const low = el("small"), middle = el("small"), high = el("small"), scale = el("div", { class: "la-scale" }, low, middle, high);
  const node = el("div", { class: `la-matrix${long ? " la-long" : ""}`, style: `--la-n:${n};--la-first:${first}px` },
    el("div", { class: "la-keys", "aria-hidden": true }, el("span", {}, "key"), ...some.map(word => el("span", {}, word))),
    el("div", { class: "la-rows" }, ...rows, strip),
    el("div", { class: "la-bars", "aria-hidden": true }, el("span", {}, "row"), zero, ...bars.map(bar => el("span", {}, bar))),
    el("div", { class: "la-values", "aria-hidden": true }, el("span"), ...numbers), scale);
  return {
    node,
    // `rows` of numbers; `ends`: the lowest and the highest that can come; `soft`: they are weights.
    set(values, query, ends, soft) {
      chosen = query;
      const reach = Math.max(-ends[0], ends[1]) || 1, [bottom, top] = soft ? [0, 1] : ends[0] === ends[1] ? [-1, 1] : ends;
      const from = v => `${(100 * (top - v) / (top - bottom)).toFixed(2)}%`, written = values[query].map(v => v === -Infinity ? "−∞" : fixed(v, 2));
      la.paint(cells, values, { reach, soft });
      la.paint([bars], [values[query].map(v => v === -Infinity ? v : v < 0 ? -reach : reach)], { reach, soft: false });
      bars.forEach((bar, j) => {
        const v = values[query][j];
        bar.classList.toggle("la-soft", soft);
        bar.style.top = from(Math.max(v === -Infinity ? 0 : v, 0));
        bar.style.bottom = `calc(100% - ${from(Math.min(v === -Infinity ? 0 : v, 0))})`;
        numbers[j].textContent = written[j];
      });
      zero.style.top = from(0);
      rows.forEach((row, i) => row.classList.toggle("la-chosen", i === query));
      strip.setAttribute("aria-valuenow", query);
      strip.setAttribute("aria-valuetext", words[query]);
      scale.classList.toggle("la-soft", soft);
      [low.textContent, middle.textContent, high.textContent] = soft ? ["0", "weight", "1"] : [fixed(-reach, 2), "0", fixed(reach, 2)];
      return written;
    },
  };
};
