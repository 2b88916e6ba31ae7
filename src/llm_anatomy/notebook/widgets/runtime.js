// Toolbox of the page widgets. Each widget carries a copy, in a scope of its own.
const la = {
  // Finds the next figure with this key, and lets the widget draw itself there from its data.
  // (By key, since some notebooks run a script elsewhere in the page; the next, since there may be copies.)
  start(key, draw) {
    const figure = document.querySelector(`[data-la="${key}"]:not(.la-ready)`);
    la.text = figure.querySelector(".la-text");
    la.text.setAttribute("aria-live", "polite");
    for (let n = 1; !la.text.id; n++) if (!document.getElementById(`${key}-${n}`)) la.text.id = `${key}-${n}`;
    figure.classList.add("la-ready");
    draw(JSON.parse(figure.querySelector("[type='application/json']").textContent));
  },

  // Puts the drawing before the words that stood in for it, which from now on are for screen readers.
  show(...nodes) {
    la.text.before(la.el("div", { role: "group", "aria-describedby": la.text.id }, ...nodes));
  },

  // Says the current state, once the reader has stopped moving.
  say(words) {
    clearTimeout(la.timer);
    la.timer = setTimeout(() => { la.text.textContent = words; }, 200);
  },

  // An element with attributes, listeners (functions) and children; "svg:…" is drawn.
  el(name, attributes = {}, ...children) {
    const svg = name.startsWith("svg:") && "http://www.w3.org/2000/svg";
    const node = svg ? document.createElementNS(svg, name.slice(4)) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") node.addEventListener(key, value);
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  },

  // So many digits, a true minus sign, no negative zero: as Python's `fixed`.
  fixed: (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "\u2212"),

  // A row: name, slider with words at its ends, in a colour of the palette, value. `set` moves it from outside.
  slider({ name, ends = [], hue, input, ...range }) {
    const node = la.el("input", { type: "range", "aria-label": name, input: () => input(+node.value), ...range });
    const shown = la.el("output");
    const track = la.el("span", { class: "la-track" }, node, ...ends.map(word => la.el("small", {}, word)));
    return {
      row: la.el("label", { class: "la-row", ...hue && { style: `--la-hue:var(--la-${hue})` } }, la.el("span", {}, name), track, shown),
      set(value, words) {
        node.value = value;
        node.setAttribute("aria-valuetext", words);
        shown.textContent = words;
      },
    };
  },
};
