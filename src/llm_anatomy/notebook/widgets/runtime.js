// One front end for the page, Jupyter and Colab: `render({ model, el })`, where a model has get, set, on and
// save_changes.

// A row with a name, a slider with words at its ends, in a colour of the palette, and its value. `set` moves it from
// outside.
function slider({ name, ends = [], hue, input, ...range }) {
  const node = el("input", { type: "range", "aria-label": name, input: () => input(+node.value), ...range }),
    shown = el("output");
  const track = el("span", { class: "la-track" }, node, ...ends.map(word => el("small", {}, word)));
  return {
    node: el("label", { class: "la-row", style: hue && `--la-hue:${hueOf(hue)}` }, el("span", {}, name), track, shown),
    set(value, words, limits = {}) {
      Object.assign(node, limits);
      node.value = value;
      node.setAttribute("aria-valuetext", words);
      shown.textContent = words;
    },
  };
}

let groups = 0;
const CONTROLS = { // each returns its node and `set(value)`; `move` is called with what the reader sets
  slider({ label, hue, values, curve = 1, step, digits, ends, low, high, whole }, move, ui) {
    const count = 1000, free = curve !== 1;
    const range = values ? { min: 0, max: values.length - 1, step: 1 } : free ? { min: 0, max: count, step: 1 }
      : { min: ui.get(low), max: ui.get(high), step: whole ? step : "any" };
    const to = v => values ? values[v] : free ? low + (high - low) * (v / count) ** curve : low === undefined ? v
      : whole ? v : +(Math.round(v / step) * step).toPrecision(9);
    const from = v => values ? values.indexOf(v) : free ? count * ((v - low) / (high - low)) ** (1 / curve) : v;
    const row = slider({ name: label, hue, ends, ...range, step: values || free || whole ? range.step : step,
      input: v => move(to(v)) });
    return { node: row.node, set: v => row.set(from(v), fixed(v, digits),
      values || free ? {} : { min: ui.get(low), max: ui.get(high) }) };
  },
  point({ label, hue, reach, step, digits }, move, ui) {
    let point;
    const rows = ["x", "y"].map((way, i) => slider({ name: `${label} ${way}`, hue, min: -reach, max: reach, step,
      input: v => move(point.with(i, v)) }));
    return { node: el("div", {}, ...rows.map(row => row.node)),
      set(v) { point = v; rows.forEach((row, i) => row.set(v[i], fixed(v[i], digits))); } };
  },
  choice({ label, hue, options, by_index, hover, spread }, move) {
    const group = `la-choice-${++groups}`, value = i => by_index ? i : options[i];
    const buttons = options.map((_, i) => el("input", { type: "radio", name: group, value: i,
      change: () => move(value(i)) }));
    const labels = options.map((words, i) => el("label", { class: "la-option",
      pointermove: e => hover && e.pointerType === "mouse" && move(value(i)) }, buttons[i], el("span", {}, words)));
    const node = el("div", { class: `la-choice${spread ? " la-spread" : ""}`, role: "radiogroup", "aria-label": label,
      style: hue && `--la-hue:${hueOf(hue)}` }, el("span", {}, label), el("div", { class: "la-options" }, ...labels));
    return { node, set(v) { buttons[by_index ? v : options.indexOf(v)].checked = true; } };
  },
  text({ label, hue, longest }, move) {
    const field = el("textarea", { rows: 2, "aria-label": label, dir: "auto", spellcheck: "false", autocomplete: "off",
      autocapitalize: "off", input: e => e.isComposing || read(), compositionend: () => read() });
    const warning = el("small", { role: "status" }), length = el("small");
    const read = () => {
      const cut = clipped(field.value, longest), long = cut.length < field.value.length;
      if (long) field.value = cut;
      warning.textContent = long ? `The text was cut after ${longest} characters.` : "";
      move(cut);
    };
    return { node: el("div", { class: "la-field", style: hue && `--la-hue:${hueOf(hue)}` },
      el("label", {}, el("span", {}, label), field), warning, length),
    set(v) {
      if (clipped(field.value, longest) !== v) field.value = v;
      length.textContent = `${[...v].length} of ${longest} characters`;
    } };
  },
  tick({ label }, move) {
    const box = el("input", { type: "checkbox", change: () => move(box.checked) });
    return { node: el("label", { class: "la-tick-box" }, box, el("span", {}, label)), set(v) { box.checked = v; } };
  },
};

const clipped = (text, longest) => [...text.toWellFormed()].slice(0, longest).join("");
const plain = x => { // a tensor as nested lists
  const data = Array.from(flat(x)), fold = (shape, from) => shape.length
    ? [...Array(shape[0]).keys()].map(i => fold(shape.slice(1), from + i * size(shape.slice(1)))) : data[from];
  return fold(x.shape, 0);
};

const KIND = { widget, prediction };
function widget(spec, model, say) {
  const pool = spec.pool.map(decode), fixedOnes = spec.controls.filter(control => control.fixed),
    graphs = spec.graphs.map(() => null), encoders = {};
  for (const { name, encoder } of spec.controls) if (encoder) encoders[name] = ENCODERS[encoder.kind](encoder);
  const controls = Object.fromEntries(spec.controls.map(control => [control.name, control])), parts = {};
  const indexOf = ({ options = [false, true], by_index }, value) => by_index ? value : options.indexOf(value);
  let known, seen = {};
  const compute = () => {
    const which = fixedOnes.reduce((n, control) => n * (control.options?.length ?? 2) +
      indexOf(control, model.get(control.name)), 0);
    const run = graphs[which] ??= load(spec.graphs[which], pool), inputs = {}, made = {};
    for (const control of spec.controls) {
      const v = model.get(control.name);
      if (control.kind === "text") {
        const found = encoders[control.name]?.read(v) ?? {};
        for (const key in found) {
          const name = `${control.name}_${key}`, x = found[key];
          if (x.data) inputs[name] = x;
          made[name] = x.data ? plain(tensor(x.data, x.shape)) : x;
        }
        continue;
      }
      inputs[control.name] = Array.isArray(v) ? { data: Float32Array.from(v), shape: [2] }
        : control.kind === "slider" ? { data: (control.whole ? Int32Array : Float32Array).of(v) }
          : { data: control.kind === "tick" ? Uint8Array.of(v) : Int32Array.of(indexOf(control, v)) };
    }
    const outputs = run(inputs), changed = Object.entries(outputs).filter(([name, x]) => seen[name]?.tensor !== x);
    for (const [name, x] of changed) seen[name] = { tensor: x, list: plain(x) };
    known = { ...spec.data, ...made };
    for (const name in outputs) known[name] = seen[name].list;
    for (const control of spec.controls) {
      const v = model.get(control.name), options = control.options;
      known[control.name] = harmless(options ? options[indexOf(control, v)] : control.kind === "tick" ? +v : v);
      if (options || control.kind === "tick") known[`${control.name}#`] = indexOf(control, v) + 1;
    }
  };
  const number = v => typeof v === "string" ? model.get(v) : v;
  const legal = (control, v) => { // the nearest value that the control can have
    if (control.kind === "text") return clipped(v, control.longest);
    if (control.kind === "slider" && !control.values) {
      const [low, high] = [control.low, control.high].map(number);
      return clip(control.whole ? low + Math.round((v - low) / control.step) * control.step : v, low, high);
    }
    if (control.values) return control.values.includes(v) ? v
      : control.values.reduce((a, b) => Math.abs(b - v) < Math.abs(a - v) ? b : a);
    return control.by_index ? clip(Math.round(v), 0, control.options.length - 1)
      : control.options && typeof v === "number" && !control.options.includes(v)
      ? control.options[clip(Math.round(v), 0, control.options.length - 1)] : v;
  };
  const ui = {
    controls,
    known: () => known,
    get(name) { // the value of a control, an entry of the data or an output, perhaps with an index, a number or a choice; else itself
      if (typeof name !== "string") return name;
      const [, own, index] = name.match(/^(\w+)\[(\w+)\]$/) ?? [null, name];
      const found = known && own in known ? known[own] : own in controls ? model.get(own) : spec.data[own];
      if (index === undefined) return found;
      const number = known?.[`${index}#`], // of a choice, from 1
        at = /^\d+$/.test(index) ? +index : number ? number - 1 : ui.get(index);
      return Array.isArray(at) ? at.map(i => found[i] ?? "") : found[at]; // of the entries of a list, none for −1
    },
    set(name, value) {
      const v = legal(controls[name], value);
      if (String(v) === String(model.get(name))) return;
      model.set(name, v);
      const { sets } = controls[name];
      for (const [other, to] of Object.entries(sets?.[indexOf(controls[name], v)] ?? {})) model.set(other, to);
      for (const control of spec.controls) if (control.kind === "slider") {
        const now = model.get(control.name), to = legal(control, now);
        if (to !== now) model.set(control.name, to);
      }
      model.save_changes();
    },
    appends: (name, id) => encoders[name].textOf(id) !== null, // whether the bytes of a token are text
    append: (name, id) => ui.set(name, // of a text that becomes too long, the end stays
      [...model.get(name) + encoders[name].textOf(id)].slice(-controls[name].longest).join("")),
    mark(mark) {
      if (typeof mark !== "string") return MARKS[mark.mark](mark, ui);
      const control = controls[mark];
      parts[mark] = CONTROLS[control.kind](control, value => ui.set(mark, value), ui);
      return { node: parts[mark].node, paint() {} };
    },
  };
  compute();
  const marks = spec.marks.map(ui.mark), rest = spec.controls.filter(({ name }) => !(name in parts)).map(({ name }) =>
    ui.mark(name));
  const reset = el("button", { type: "button", click: () => spec.controls.forEach(({ name, start }) =>
    ui.set(name, start)) }, "Reset");
  const update = () => {
    compute();
    for (const control of spec.controls) parts[control.name].set(model.get(control.name));
    for (const mark of marks) mark.paint();
    reset.disabled = spec.controls.every(({ name, start }) => String(start) === String(model.get(name)));
    say(fill(spec.sentence, known));
  };
  for (const { name } of spec.controls) model.on(`change:${name}`, update);
  return { nodes: [...marks.map(mark => mark.node), el("div", { class: "la-controls" }, ...rest.map(part => part.node),
    reset)], begin: update, get: model.get, set: ui.set, known: () => known };
}

// Draws a widget into a node: the figure of a page, or an empty element of Jupyter or Colab.
function render({ model, el: place }) {
  const spec = JSON.parse(model.get("_spec")), root = place.getRootNode(), home = root.head ?? root;
  if (!home.querySelector?.("style[data-la]")) home.append?.(el("style", { "data-la": "" }, STYLE));
  const figure = place.matches(".la-widget") ? place : place.appendChild(el("figure", { class: "la-widget" },
    el("p", { class: "la-text" }),
    ...(spec.caption ? [el("figcaption", { class: "la-caption" }, spec.caption)] : [])));
  const text = figure.querySelector(".la-text");
  let timer;
  const say = words => { // when the reader has stopped moving
    clearTimeout(timer);
    timer = setTimeout(() => { text.textContent = words; }, 200);
    figure.la = { ...figure.la, words };
  };
  text.setAttribute("aria-live", "polite");
  text.id ||= `la-text-${++groups}`;
  const { nodes, begin, ...rest } = KIND[spec.kind](spec, model, say, { figure, text });
  text.before(el("div", { role: "group", "aria-describedby": text.id }, ...nodes));
  figure.classList.add("la-ready");
  figure.la = rest; // for those who look closer, such as the tests
  begin?.();
}

// Without a kernel: a model that holds the values, for each figure of the page that has none yet.
function start() {
  for (const figure of document.querySelectorAll(".la-widget:not(.la-ready) > [type='application/json']")) {
    const spec = figure.textContent, listeners = {}, changed = new Set();
    const values = { _spec: spec, ...Object.fromEntries((JSON.parse(spec).controls ??
      []).map(({ name, start }) => [name, start])) };
    render({ el: figure.parentElement, model: {
      get: name => values[name],
      set(name, value) { values[name] = value; changed.add(name); },
      on(event, listener) { listeners[event] = listener; },
      save_changes() {
        const [name] = changed;
        changed.clear();
        listeners[`change:${name}`]?.();
      },
    } });
  }
}
globalThis.llmAnatomy ??= { render, start };
globalThis.llmAnatomy.start();
export default { render };
