// Softmax of a row of scores; 0 for those that are −∞.
la.softmax = scores => {
  const best = Math.max(...scores), powers = scores.map(score => Math.exp(score - best));
  const total = powers.reduce((a, b) => a + b);
  return powers.map(power => power / total);
};

// Hides the future if `hide`: the scores of later keys become −∞.
la.masked = (rows, hide) => rows.map((row, i) => row.map((score, j) => hide && j > i ? -Infinity : score));

// Colours the cells of a map: signed numbers from −`reach` to `reach`, or weights from 0 to 1 (`soft`).
la.paint = (cells, rows, { reach = 1, soft = false }) => cells.forEach((line, i) => line.forEach((cell, j) => {
  const value = rows[i][j], share = soft ? value : Math.abs(value) / reach;
  cell.className = soft ? "la-soft" : value === -Infinity ? "la-hidden" : value < 0 ? "la-minus" : "";
  cell.style.setProperty("--la-share", `${(100 * Math.min(share || 0, 1)).toFixed(1)}%`);
}));

// A map with one row per query and one column per key, and bars of the chosen row below. A row is chosen by mouse or tap, or by
// dragging along the labels on the left or with the arrow keys.
la.matrix = (labels, pick) => {
  const { el, fixed } = la, n = labels.length, long = labels.some(label => label.length > 2);
  const some = [...labels.keys()].map(i => (long || n < 15 || i % 2 === 0 ? labels[i] : "")); // numbers in narrow columns
  const cells = labels.map(() => labels.map(() => el("i")));
  const marks = labels.map(label => el("span", {}, label));
  const rows = cells.map((line, i) => el("div", { "aria-hidden": true, ...la.hover(() => pick(i)), click: () => pick(i) }, marks[i], ...line));
  const bars = labels.map(() => el("i")), numbers = labels.map(() => el("b"));
  const zero = el("hr");
  const first = Math.max(44, 16 + 7.5 * Math.max(...labels.map(label => label.length)));
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
    el("div", { class: "la-keys", "aria-hidden": true }, el("span", {}, "key"), ...some.map(label => el("span", {}, label))),
    el("div", { class: "la-rows" }, ...rows, strip),
    el("div", { class: "la-bars", "aria-hidden": true }, el("span", {}, "row"), zero, ...bars.map(bar => el("span", {}, bar))),
    el("div", { class: "la-values", "aria-hidden": true }, el("span"), ...numbers), scale);
  return {
    node,
    // `values`: rows of numbers; `ends`: the lowest and the highest possible number; `soft`: the numbers are weights.
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
      strip.setAttribute("aria-valuetext", labels[query]);
      scale.classList.toggle("la-soft", soft);
      [low.textContent, middle.textContent, high.textContent] = soft ? ["0", "weight", "1"] : [fixed(-reach, 2), "0", fixed(reach, 2)];
      return written;
    },
  };
};
