// Toolbox of the page widgets. Each widget carries a copy of it, in its own scope.
const la = {
  // Finds the next figure with this key, and lets the widget draw itself there from its data.
  // (It searches by key, since some notebooks run a script elsewhere in the page, and takes the next, since there may be copies.)
  start(key, draw) {
    const figure = document.querySelector(`[data-la="${key}"]:not(.la-ready)`);
    la.text = figure.querySelector(".la-text");
    la.text.setAttribute("aria-live", "polite");
    for (let n = 1; !la.text.id; n++) if (!document.getElementById(`${key}-${n}`)) la.text.id = `${key}-${n}`;
    figure.classList.add("la-ready");
    draw(JSON.parse(figure.querySelector("[type='application/json']").textContent));
  },

  // Puts the drawing before the text that replaced it, which from now on is for screen readers.
  show(...nodes) {
    la.text.before(la.el("div", { role: "group", "aria-describedby": la.text.id }, ...nodes));
  },

  // Updates the description of the state when the reader has stopped moving.
  say(words) {
    clearTimeout(la.timer);
    la.timer = setTimeout(() => { la.text.textContent = words; }, 200);
  },

  // Creates an element with attributes, listeners (functions) and children; names that begin with "svg:" are SVG elements.
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

  // Formats a number with so many digits, a true minus sign and no negative zero, as Python's `fixed` does.
  fixed: (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "\u2212"),

  // A row with a name, a slider with labels at its ends, in a colour of the palette, and its value. `set` moves it from outside.
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
