// The marks that widgets are made of: plots with layers, facts, notes, rows.

// Creates an element with attributes, listeners (functions) and children; names that begin with "svg:" are SVG
// elements.
function el(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:") && "http://www.w3.org/2000/svg";
  const node = svg ? document.createElementNS(svg, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// Formats a number with so many digits, a true minus sign and no negative zero, as Python's `fixed` does.
const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
function written(value, form) {
  if (typeof value !== "number") return String(value);
  if (Math.abs(value) === Infinity) return value > 0 ? "∞" : "−∞";
  return form ? fixed(value, +form.slice(1, -1)) : String(+value.toPrecision(6)).replace("-", "−");
}

// A text that a reader has typed is no template.
const harmless = value => typeof value === "string" ? value.replace(/{/g, "{\u2060") : value;

// Fills a template, as Python's `fill` does.
function fill(template, known) {
  const repeat = (_, body, glue = ", ") => {
    const names = [...body.matchAll(/{([\w#]+)(?:\[(\w+)\])?/g)].map(([, name, index]) =>
      Array.isArray(known[index]) ? index : name).filter(name => Array.isArray(known[name]));
    return (known[names[0]] ?? []).flatMap((_, i) => {
      const row = Object.fromEntries(names.map(name => [name, known[name][i]]));
      return Object.values(row).some(Number.isNaN) ? [] : [fill(body, { ...known, ...row, "#": i + 1 })];
    }).join(glue);
  };
  const value = (_, name, index, form, words) => {
    const at = /^\d+$/.test(index) ? +index : `${index}#` in known ? known[`${index}#`] - 1 : known[index];
    const found = index === undefined ? known[name] : known[name][at], options = words.slice(1).split("|");
    return words ? options[Math.min(Math.max(Math.trunc(found), 0), options.length - 1)] : written(found, form);
  };
  let text = template.replace(/\[\[(.*?)(?:\|\|(.*?))?\]\]/g, repeat), last;
  do text = (last = text).replace(/{([\w#]+)(?:\[(\w+)\])?(?::([^{}|]*))?((?:\|[^{}|]*)*)}/g, value);
    while (text !== last);
  return text;
}

const pen = document.createElement("canvas").getContext("2d"); // measures words without a layout of the page
const clip = (v, low, high) => Math.min(Math.max(v, low), high);
const HUES = ["feedforward", "position", "weights", "normalization"]; // tell neighbours apart
const hueOf = hue => hue || hue === 0 ? `var(--la-${HUES[hue % 4] ?? hue})` : "currentColor";
const list = v => Array.isArray(v) ? v : [v];
const at = (v, i) => Array.isArray(v) ? v[i] : v;
const entries = (known, i) => Object.fromEntries(Object.entries(known).map(([name, v]) => [name, at(v, i)]));
const path = points => points.map(([x, y], i) => Number.isNaN(x + y) ? ""
  : `${i && !Number.isNaN(points[i - 1][0] + points[i - 1][1]) ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Follows mouse, pen or finger over a node, and takes a tap. Where a finger may scroll the page, only sideways
// movements count.
function drag(node, at, hover) {
  let start;
  const sideways = e => getComputedStyle(node).touchAction === "none" ||
    Math.abs(e.clientX - start[0]) > 8 + 2 * Math.abs(e.clientY - start[1]);
  node.addEventListener("pointerdown", e => {
    node.setPointerCapture(e.pointerId);
    start = [e.clientX, e.clientY];
    if (e.pointerType !== "touch") at(e);
  });
  node.addEventListener("pointermove", e => {
    if (node.hasPointerCapture(e.pointerId) ? e.pointerType !== "touch" || sideways(e)
      : hover && e.pointerType === "mouse") at(e);
  });
  node.addEventListener("pointerup", e => { // a tap; scrolling the page ends in pointercancel
    if (start && Math.hypot(e.clientX - start[0], e.clientY - start[1]) < 8) at(e);
  });
}

// About so many round numbers between two.
function round(low, high, many) {
  const share = (high - low) / many, unit = 10 ** Math.floor(Math.log10(share)),
    step = unit * [1, 2, 5, 10].find(n => n * unit >= share * .999);
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return [...Array(Math.max(count, 0)).keys()].map(i => +((first + i) * step).toPrecision(9));
}

// One frame of a plot. It draws in pixels; `ui.get` reads channels, `ui.set` moves controls.
function frame(spec, ui, number) {
  const svg = el("svg:svg", { "aria-hidden": true }), node = el("div", { class: "la-plot" }, svg), handles = {};
  let box, x, y, taken, view;
  const channel = (name, fallback) => {
    const v = name === undefined ? fallback : ui.get(name);
    return number !== undefined && Array.isArray(v) ? v[number] : v;
  };
  const literal = v => typeof v === "string" && v[0] !== "@" ? v : channel(typeof v === "string" ? v.slice(1) : v);
    // a hue or a label
  const known = () => number === undefined ? ui.known() : entries(ui.known(), number);
  const texts = given => typeof given === "string" && given.includes("{") ? given : channel(given);
    // a template or a channel
  const add = (name, attributes, ...children) => svg.appendChild(el("svg:" + name, attributes, ...children));
  const scale = ({ low, high, log }, a, b) => {
    const f = log ? Math.log : v => v, to = v => a + (f(v) - f(low)) / (f(high) - f(low)) * (b - a);
    return Object.assign(to, { back: at => { const v = f(low) + (at - a) / (b - a) * (f(high) - f(low));
      return log ? Math.exp(v) : v; } });
  };
  const axis = (given, own) => {
    const labels = given?.labels && ui.get(given.labels);
    const ends = labels ? { low: -.5, high: labels.length - .5 }
      : { low: channel(given?.low ?? own[0]), high: channel(given?.high ?? own[1]) };
    return { ...given, ...ends, labels, ticks: (Array.isArray(given?.ticks) ? given.ticks
      : channel(given?.ticks))?.filter(v => v === v) };
  };
  // In a template of a cell, a matrix stands for its own entry.
  const own = (text, i, j) => Object.fromEntries([...text.matchAll(/\w+/g)].map(([name]) =>
    [name, ui.get(name)?.[i]?.[j]]).filter(([name, v]) => typeof v === "number"));
  // A label in the first direction in which there is room; nothing where there is none.
  const word = (at, words, { hue, gap = 8, toward = [0, 1], anchor, ...style } = {}) => {
    const text = add("text", { class: "la-word", style: `fill:${hueOf(hue)}`, ...style }, words),
      [w, h] = [pen.measureText(words).width / 2 + 2, 9];
    const norm = Math.hypot(...toward) || 1, [a, b] = [toward[0] / norm, -toward[1] / norm];
    const ways = anchor ? [[0, 0]] : [[a, b], [0, -1], [0, 1], [1, 0], [-1, 0], [.7, -1], [-.7, -1], [.7, 1], [-.7, 1],
      [0, -2.2], [0, 2.2]];
    for (const [dx, dy] of ways) {
      const centre = [at[0] + dx * (gap + w), at[1] + dy * (gap + h)];
      if (!anchor) centre[0] = clip(centre[0], box.plane ? w : box.left + w, box.width - w);
      const own = [centre[0] - w, centre[1] - h, centre[0] + w, centre[1] + h];
      const inside = own[0] >= -1 && own[2] <= box.width + 1 && own[1] >= -1 && own[3] <= box.foot + (anchor ? 99 : 2);
      if (!anchor && (!inside || taken.some(t => own[0] < t[2] && t[0] < own[2] && own[1] < t[3] &&
        t[1] < own[3]))) continue;
      taken.push(own);
      text.setAttribute("x", centre[0]);
      text.setAttribute("y", centre[1]);
      return text;
    }
    text.remove();
  };
  const shade = (hue, share) => `fill:color-mix(in oklab,${hueOf(hue)} ${(100 * share).toFixed(1)}%,var(--la-ground))`;
  const points = layer => {
    const [a, b] = [list(channel(layer.x)), list(channel(layer.y))], n = Math.max(a.length, b.length);
    return [...Array(n).keys()].map(i => [a.length > 1 ? a[i] : a[0], b.length > 1 ? b[i] : b[0],
      i]).filter(([a, b]) => !Number.isNaN(a + b));
  };
  const label = (layer, i, alone) => {
    const given = literal(layer.label);
    if (given === undefined) return "";
    return Array.isArray(given) ? given[i] : /[{]/.test(given) ? fill(given, known()) : alone ? given
      : `${given} ${i + 1}`;
  };
  const stroke = layer => ({ fill: "none", stroke: hueOf(literal(layer.hue)),
    "stroke-dasharray": layer.dashed && "5 4", class: layer.faint && "la-faint" });
  const draw = {
    line(layer) {
      const rows = channel(layer.y), many = Array.isArray(rows[0]) ? rows : [rows], across = channel(layer.x);
      for (const row of many) add("path", { ...stroke(layer), "stroke-width": layer.width,
        d: path(row.map((v, i) => [x(across ? across[i] : i), y(v)])) });
    },
    dots(layer) {
      const all = points(layer), sizes = channel(layer.size), hues = literal(layer.hue);
      for (const [a, b, i] of all) {
        const r = at(sizes, i), fill = hueOf(at(hues, i)), own = at(channel(layer.hollow), i)
          ? { fill: "none", stroke: fill, class: "la-hollow" } : { fill };
        if (layer.faint) own.class = "la-faint";
        if (layer.diamond) add("path", { ...own, stroke: "currentColor", "stroke-width": 2,
          d: `M${x(a)} ${y(b) - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` });
        else add("circle", { ...own, cx: x(a), cy: y(b), r });
        const words = label(layer, i, all.length === 1);
        if (words) word([x(a), y(b)], words, { hue: at(hues, i), gap: r + 2, toward: box.plane ? [a, b] : [0, 1] });
      }
    },
    arrows(layer) {
      const [u, v, widths] = ["x0", "y0", "width"].map(name => channel(layer[name], 0)), all = points(layer);
      for (const [a, b, i] of all) {
        const [sx, sy, tx, ty] = [x(at(u, i)), y(at(v, i)), x(a), y(b)], angle = Math.atan2(ty - sy, tx - sx),
          wing = Math.min(9, Math.hypot(tx - sx, ty - sy) / 2);
        const tip = turn => path([[tx, ty], [tx - wing * Math.cos(angle + turn), ty - wing * Math.sin(angle + turn)]]);
        const head = layer.head ? tip(.45) + tip(-.45) : "";
        const hue = hueOf(at(literal(layer.hue), i));
        add("path", { ...stroke(layer), stroke: hue, "stroke-width": at(widths, i), "stroke-linecap": "round",
          d: `M${sx} ${sy}L${tx} ${ty}${head}` });
        const words = label(layer, i, all.length === 1);
        if (words) word([tx, ty], words, { hue: at(literal(layer.hue), i), toward: [tx - sx, sy - ty] });
      }
    },
    arcs(layer) {
      const [from, to, weights] = [channel(layer.x0), channel(layer.x), channel(layer.weights)],
        [top, foot] = [y(channel(layer.y0, 1)), y(channel(layer.y, 0))], half = (top + foot) / 2;
      list(weights).forEach((weight, i) => {
        if (!(weight > .004)) return;
        const [a, b] = [x(at(from, i)), x(at(to, i))];
        add("path", { ...stroke(layer), class: "la-arc", "stroke-width": 1 + (layer.widest - 1) * weight,
          d: `M${a} ${top}C${a} ${half} ${b} ${half} ${b} ${foot}` });
      });
    },
    bars(layer) {
      const values = list(channel(layer.y)), middles = channel(layer.x), text = texts(layer.text),
        [base, hues] = [channel(layer.base, 0), literal(layer.hue)];
      values.forEach((value, i) => {
        if (Number.isNaN(value)) return;
        const [on, v, from] = [middles ? middles[i] : i, value === -Infinity ? 0 : value, at(base, i)],
          hue = hues === "signed" ? v < 0 ? "negative" : "positive" : at(hues, i);
        const [a, b] = (layer.across ? [x(from), x(v)] : [y(from), y(v)]).sort((p, q) => p - q),
          unit = layer.across ? y : x;
        const [c, d] = [unit(on - .4), unit(on + .4)].sort((p, q) => p - q);
        add("path", { style: `fill:${hueOf(hue)}`, d: layer.across ? `M${a} ${c}H${b}V${d}H${a}z`
          : `M${c} ${a}H${d}V${b}H${c}z` });
        if (text === undefined) return;
        const words = Array.isArray(text) ? written(text[i], ".2f") : fill(text, { ...known(), value, "#": i + 1 });
        if (layer.across) add("text", { x: b + 6, y: (c + d) / 2, class: "la-value" }, words);
        else if (d - c > 7.5 * words.length) word([(c + d) / 2, v < from ? b : a], words,
          { gap: 1, toward: [0, v < from ? -1 : 1] });
        else add("text", { class: "la-value",
          transform: `translate(${(c + d) / 2} ${v < from ? b + 4 : a - 4})rotate(-90)`,
          "text-anchor": v < from ? "end" : "start" }, words);
      });
    },
    cells(layer) {
      const rows = channel(layer.values), reach = channel(layer.reach) || 1, hues = literal(layer.hue), shades = {},
        text = texts(layer.text);
      const many = rows.length, wide = rows[0].length, X = j => box.left + j / wide * (box.right - box.left),
        Y = i => box.top + i / many * (box.foot - box.top);
      // One path for each shade, so that it follows the colours of the page, and a large map stays light.
      rows.forEach((row, i) => row.forEach((v, j) => {
        if (Number.isNaN(v)) return;
        const hue = hues === "signed" ? v < 0 ? "negative" : "positive" : Array.isArray(hues)
          ? list(hues[i])[j] ?? hues[j] : hues;
        const key = v === -Infinity ? "hidden" : `${hue} ${Math.round(32 * clip(Math.abs(v) / reach, 0, 1))}`;
        (shades[key] ??= []).push(`${path([[X(j), Y(i)], [X(j + 1), Y(i)], [X(j + 1), Y(i + 1)], [X(j), Y(i + 1)]])}z`);
      }));
      for (const [key, d] of Object.entries(shades)) {
        const [hue, level] = key.split(" ");
        add("path", { d: d.join(""), class: key === "hidden" ? "la-hatch" : "la-cell",
          style: level && shade(hue, level / 32) });
      }
      if (layer.scale && Object.keys(shades).length) view.scale(hues, reach);
      if (text !== undefined) rows.forEach((row, i) => row.forEach((v, j) => {
        if (Number.isNaN(v)) return;
        const words = Array.isArray(text) ? text[i][j] : fill(text, { ...known(), ...own(text, i, j), value: v });
        const turn = 6.5 * words.length > X(1) - X(0) ? "rotate(-90)" : "",
          centre = `translate(${(X(j) + X(j + 1)) / 2} ${(Y(i) + Y(i + 1)) / 2})`;
        add("text", { class: "la-value", transform: centre + turn, "text-anchor": "middle" }, words);
      }));
      const framed = channel(layer.frame), column = channel(layer.column),
        [from, to] = column === undefined ? [0, wide] : [column, column + 1];
      for (const i of framed === undefined ? [] : list(framed).filter(i => i === i)) add("rect",
        { class: "la-framed", x: X(from) - 1, y: Y(i) - 1, width: X(to) - X(from) + 2, height: Y(1) - Y(0) + 2 });
    },
    words(layer) {
      const text = texts(layer.text), hues = literal(layer.hue);
      for (const [a, b, i] of points(layer)) {
        const words = Array.isArray(text) ? written(text[i], ".2f") : fill(text, known());
        word([x(a), y(b)], words, { hue: at(hues, i), gap: 0, anchor: layer.anchor, "text-anchor": layer.anchor });
      }
    },
    area(layer) {
      const [a, b, shares, text] = ["x", "y", "share", "text"].map(name => channel(layer[name]));
      a.forEach((row, i) => {
        const corners = row.map((v, j) => [x(v), y(b[i][j])]), [cx, cy] = [0, 1].map(way => {
          const all = corners.map(corner => corner[way]);
          return (Math.min(...all) + Math.max(...all)) / 2;
        });
        add("path", { class: "la-cell", style: shade(layer.hue, at(shares, i)), d: `${path(corners)}z` });
        if (text) add("text", { class: "la-value", x: cx, y: cy, "text-anchor": "middle" }, text[i]);
      });
    },
    rule(layer) {
      const [a, b] = [channel(layer.x), channel(layer.y)], value = a ?? b;
      if (Number.isNaN(value)) return;
      add("path", { ...stroke(layer), "stroke-width": 1.5, d: a === undefined ? `M${box.left} ${y(b)}H${box.right}`
        : `M${x(a)} ${box.top}V${box.foot}` });
      if (layer.label) word(a === undefined ? [box.right - 20, y(b)] : [x(a), box.top + 8], label(layer, 0, true),
        { hue: layer.hue, toward: a === undefined ? [0, 1] : [1, 0] });
    },
    band(layer) {
      const [a, b] = [x(channel(layer.low)), x(channel(layer.high))].map(v => clip(v, box.left, box.right));
      add("path", { style: `fill:${hueOf(layer.hue)}`, class: "la-band",
        d: `M${a} ${box.top}H${b}V${box.foot}H${a}z` });
    },
    // A point that can be dragged with mouse, pen or finger and moved with the arrow keys (with Shift, farther).
    handle({ control: name }) {
      const control = ui.controls[name], value = ui.get(name),
        snap = v => clip(Math.round(v / control.step) * control.step, -control.reach, control.reach);
      const words = `(${value.map(v => fixed(v, control.digits)).join(", ")})`;
      const dot = handles[name] ??= node.appendChild(el("div", {
        class: "la-handle", tabindex: 0, role: "slider", "aria-roledescription": "point in the plane",
          "aria-label": control.label,
        "aria-valuemin": -control.reach, "aria-valuemax": control.reach, style: `--la-hue:${hueOf(control.hue)}`,
        pointerdown(e) { dot.setPointerCapture(e.pointerId); },
        pointermove(e) {
          if (!dot.hasPointerCapture(e.pointerId)) return;
          const corner = svg.getBoundingClientRect();
          ui.set(name, [x.back(e.clientX - corner.left), y.back(e.clientY - corner.top)].map(snap));
        },
        keydown(e) {
          const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
          if (!way) return;
          e.preventDefault();
          ui.set(name, ui.get(name).map((v, i) => snap(v + way[i] * control.step * (e.shiftKey ? 25 : 5))));
        },
      }));
      dot.style.left = `${x(value[0])}px`;
      dot.style.top = `${y(value[1])}px`;
      dot.setAttribute("aria-valuenow", value[0]);
      dot.setAttribute("aria-valuetext", words);
    },
  };

  // The frame with its axes: numbers on round ticks, or labels of positions.
  function axes(across, up) {
    const tick = (v, attributes, labels) => add("text", { class: "la-tick", ...attributes },
      labels ? labels[v] : written(v));
    const ends = [across.low, across.high, up.low, up.high];
    if (spec.y?.labels) up.labels.forEach((_, i) => tick(i, { x: box.left - 6, y: y(i), "text-anchor": "end",
      style: `fill:${hueOf(up.hue)}` }, up.labels));
    else if (spec.y) for (const v of up.ticks ?? round(up.low, up.high, box.foot - box.top > 120 ? 4 : 2)) {
      add("path", { class: v ? "la-grid" : "la-axis", d: `M${box.left} ${y(v)}H${box.right}` });
      tick(v, { x: box.left - 6, y: y(v), "text-anchor": "end" });
    }
    const room = (box.right - box.left) / (across.labels?.length ?? 1),
      long = across.labels?.some(word => word.length * 7.5 > room);
    if (across.labels) across.labels.forEach((word, i) => {
      if (long && word.length < 3 && i % Math.ceil(word.length * 9 / room)) return;
      const turned = long && word.length > 2;
      const place = turned ? { transform: `translate(${x(i)} ${box.top - 6})rotate(-90)` }
        : { x: x(i), y: box.top - 12, "text-anchor": "middle" };
      tick(i, { ...place, style: `fill:${hueOf(across.hue)}` }, across.labels);
    });
    else if (spec.x) for (const v of across.ticks ?? round(across.low, across.high,
      box.right - box.left > 440 ? 8 : 4)) {
      if (box.plane) add("path", { class: v ? "la-grid" : "la-axis", d: `M${x(v)} ${box.top}V${box.foot}` });
      tick(v, { x: x(v), y: box.foot + 14, "text-anchor": "middle" });
    }
    if (up.name) add("text", { class: "la-name", x: 2, y: 9 }, up.name);
    if (across.name) add("text", { class: "la-name", x: box.width - 2,
      y: across.labels ? box.foot + 16 : box.foot + 32, "text-anchor": "end" }, across.name);
    return ends;
  }
  view = {
    node, known,
    scale() {},
    paint(width = view.width) { // for the first time when the page has been laid out
      if (!width) return;
      view.width = width;
      pen.font = `13px ${getComputedStyle(node).fontFamily}`;
      const across = axis(spec.x, [0, 1]), up = axis(spec.y, [0, 1]);
      const long = labels => Math.max(...labels.map(label => label.length)) * 7.5;
      const plane = spec.aspect === 1 && !across.labels, left = plane ? 22 : spec.y ? up.labels
        ? Math.max(24, 12 + long(up.labels)) : 44 : 4, right = spec.y || spec.x ? 12 : 4;
      const inner = Math.min(width - left - right, spec.widest ?? 1e9);
      const turned = across.labels && long(across.labels) > inner / across.labels.length &&
        across.labels.some(label => label.length > 2);
      const top = (up.name ? 20 : 8) + (across.labels ? turned ? 8 + long(across.labels) : 20 : 0);
      const foot = top + (spec.aspect ? inner * channel(spec.aspect) : (spec.height ?? 220) - top - (spec.x ? 40 : 4));
      box = { left, right: left + inner, top, foot, width: left + inner + right, plane };
      x = scale(across, box.left, box.right);
      y = up.labels ? scale(up, box.top, box.foot) : scale(up, box.foot, box.top);
      taken = [];
      svg.replaceChildren();
      svg.style.height = `${foot + (spec.x && !across.labels ? across.name ? 40 : 22 : across.name ? 22 : 4)}px`;
      svg.style.width = `${box.width}px`;
      axes(across, up);
      for (const layer of spec.layers) draw[layer.layer](layer);
      svg.append(...svg.querySelectorAll(".la-framed"));
    },
  };
  if (spec.pick) {
    node.classList.add("la-picked", ...("x" in spec.pick ? ["la-sideways"] : []));
    drag(node, e => {
      const corner = svg.getBoundingClientRect(), place = { x: [x, e.clientX - corner.left],
        y: [y, e.clientY - corner.top] };
      for (const [way, name] of Object.entries(spec.pick)) ui.set(name, place[way][0].back(place[way][1]));
    }, spec.hover);
  }
  return view;
}

const MARKS = { // each returns its node and what draws it anew
  plot(spec, ui) {
    const titles = spec.repeat && ui.get(spec.repeat), text = el("b"), hint = el("small"), low = el("small"),
      high = el("small");
    const frames = titles ? titles.map((_, i) => frame(spec, ui, i)) : [frame(spec, ui)],
      scale = el("div", { class: "la-scale", "aria-hidden": true }, low, el("i"), high);
    frames[0].scale = (hue, reach) => {
      [low.textContent, high.textContent] = [hue === "signed" ? written(-reach.toFixed(2)) : "0",
        written(+reach.toFixed(2))];
      scale.style.setProperty("--la-low", hue === "signed" ? "var(--la-negative)" : "var(--la-ground)");
      scale.style.setProperty("--la-high", hue === "signed" ? "var(--la-positive)" : hueOf(hue));
    };
    const names = frames.map(() => el("small")), small = titles &&
      el("div", { class: "la-plots" }, ...frames.map((one, i) => el("div", {}, names[i], one.node)));
    const head = spec.title || spec.hint ? [el("div", { class: "la-heading" }, text, hint)] : [];
    const paint = () => {
      text.textContent = fill(spec.title ?? "", ui.known());
      hint.textContent = fill(spec.hint ?? "", ui.known());
      frames.forEach((one, i) => {
        names[i].textContent = fill(titles?.[i] ?? "", one.known());
        one.paint();
      });
    };
    for (const one of frames) {
      new ResizeObserver(([{ contentRect: { width } }]) => width !== one.width && one.paint(width)).observe(one.node);
    }
    const scaled = spec.layers.some(layer => layer.scale);
    return { node: el("div", { class: "la-drawn" }, ...head, small ?? frames[0].node, ...(scaled ? [scale] : [])),
      paint };
  },
  facts(spec, ui) {
    const all = Object.entries(spec.facts).map(([label, value]) =>
      ({ label, value, name: el("small"), shown: el("b") }));
    const node = el("div", { class: "la-numbers" }, ...all.map(({ name, shown }) => el("div", {}, name, shown)));
    return { node, paint: () => all.forEach(({ label, value, name, shown }) => {
      name.textContent = fill(label, ui.known());
      shown.textContent = fill(value, ui.known());
    }) };
  },
  note(spec, ui) {
    const node = el(spec.code ? "code" : "p", { class: "la-said" });
    return { node, paint() {
      node.replaceChildren(...fill(spec.text, ui.known()).split(/_\(([^)]*)\)/).map((part, i) => i % 2
        ? el("sub", {}, part) : part));
    } };
  },
  chips({ text, below = "", title = "", hint = "", hue = "", repeat }, ui) {
    const groups = (repeat ? ui.get(repeat) : [0]).map(() => ({ name: el("b"), more: el("small"), all: [],
      row: el("div", { class: "la-chips", "aria-hidden": true }) }));
    const made = chip => chip.node ?? Object.assign(chip, { node: el("span", { class: "la-chip" },
      chip.token = el("bdi"), chip.note = el("small")) }).node;
    const paint = () => groups.forEach(({ name, more, all, row }, n) => {
      const known = repeat ? entries(ui.known(), n) : ui.known();
      [name.textContent, more.textContent] = [fill(title, known), fill(hint, known)];
      const parts = fill(`[[${text}\x1f${below}\x1f${hue}||\x1e]]`, known).split("\x1e").filter(Boolean);
      row.replaceChildren(...parts.map((part, i) => {
        const chip = all[i] ??= {}, node = made(chip), [token, note, own] = part.split("\x1f");
        [chip.token.textContent, chip.note.textContent] = [token, note === "−1" ? "none" : note];
        node.style.setProperty("--la-hue", hueOf(own || i % 4));
        node.classList.toggle("la-missing", note === "−1");
        return node;
      }));
    });
    return { paint, node: el("div", { class: "la-drawn" }, ...groups.flatMap(({ name, more, row }) =>
      [el("div", { class: "la-heading" }, name, more), row])) };
  },
  continuations(spec, ui) { // the same buttons at each step, so that one that has the focus keeps it
    const node = el("div", { class: "la-next", style: `--la-hue:${hueOf(spec.hue)}` }), name = el("b"), more = el("small");
    const parts = ui.get(spec.ids).map((_, i) => {
      const [token, bar, words] = ["code", "i", "small"].map(name => el(name));
      const take = () => ui.append(spec.text, ui.get(spec.ids)[i]);
      const button = node.appendChild(el("button", { type: "button", click: take }, token, bar, words));
      return { token, bar, words, button };
    });
    const paint = () => {
      [name.textContent, more.textContent] = [spec.title, spec.hint].map(words => fill(words ?? "", ui.known()));
      parts.forEach(({ token, bar, words, button }, i) => {
        const id = ui.get(spec.ids)[i];
        token.textContent = ui.get(`${spec.text}_vocabulary`)[id];
        bar.style.setProperty("--la-share", ui.get(spec.values)[i]);
        words.textContent = fill(spec.words, entries(ui.known(), i));
        button.disabled = !ui.appends(spec.text, id);
      });
    };
    return { paint, node: el("div", { class: "la-drawn" }, el("div", { class: "la-heading" }, name, more), node) };
  },
  row(spec, ui) {
    const parts = spec.marks.map(ui.mark), shares = spec.shares ?? parts.map(() => 1);
    const node = el("div",
      { class: "la-side", style: `--la-shares:${shares.map(share => `minmax(0,${share}fr)`).join(" ")}` },
      ...parts.map(part => part.node));
    return { node, paint: () => parts.forEach(part => part.paint()) };
  },
};
