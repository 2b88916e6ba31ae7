// As llm_anatomy's attention: the values are averaged by softmax(q·k / T); at T = 0 the first of the best keys has all the weight.
function attend(query, keys, values, temperature) {
  const scores = keys.map(key => key[0] * query[0] + key[1] * query[1]);
  const best = Math.max(...scores);
  // Without subtracting the maximum, exp overflows from scores of about 710 on.
  const powers = temperature > 0
    ? scores.map(score => Math.exp((score - best) / temperature))
    : scores.map((_, i) => +(i === scores.indexOf(best)));
  const total = powers.reduce((a, b) => a + b);
  const weights = powers.map(power => power / total);
  const output = [0, 1].map(axis => weights.reduce((sum, weight, i) => sum + weight * values[i][axis], 0));
  return { scores, weights, output };
}

function draw(data) {
  const { keys, values, reach, step, hottest } = data, { el, fixed } = la;
  const point = (at, digits) => `(${fixed(at[0], digits)}, ${fixed(at[1], digits)})`;
  let { query, temperature } = data, now;

  const keyPlane = la.plane(reach, plane => {
    keys.forEach((key, i) => {
      plane.arrow(key, { class: "la-key" });
      plane.word(key, `key ${i + 1}`, { class: "la-key-word" }, 6);
    });
    plane.line([0, 0], query, { class: "la-query" });
    plane.word(query, "query", { class: "la-query-word" }, 12, [0, 1]);
    handle.set(query, point(query, 2));
  });
  const valuePlane = la.plane(data.value_reach, plane => {
    values.forEach((value, i) => plane.line(now.output, value, { class: "la-pull", "stroke-width": 7 * now.weights[i] }));
    values.forEach((value, i) => {
      plane.add("circle", { class: "la-value", cx: plane.x(value[0]), cy: plane.y(value[1]), r: 5 });
      plane.word(value, `value ${i + 1}`, { class: "la-value" }, 8);
    });
    const d = `M${plane.x(now.output[0])} ${plane.y(now.output[1]) - 9}l9 9l-9 9l-9 -9z`;
    plane.add("path", { class: "la-value la-output", d });
    plane.word(now.output, "output", {}, 10, [0, -1]);
  });

  const set = (q, t = temperature) => { query = q; temperature = t; update(); };
  const handle = keyPlane.handle({ name: "query", step, at: () => query, move: set });
  const coordinate = (name, input) => la.slider({ name, hue: "query", min: -reach, max: reach, step, input });
  const x = coordinate("query x", v => set([v, query[1]])), y = coordinate("query y", v => set([query[0], v]));
  // Forty steps, which get finer towards the hard end.
  const heat = la.slider({
    name: "temperature", min: 0, max: 40, step: 1, ends: ["hard", "soft"], input: v => set(query, hottest * (v / 40) ** 2),
  });

  const bars = keys.map((_, i) => {
    const [score, weight, bar] = ["span", "b", "i"].map(name => el(name));
    return { score, weight, bar, row: el("div", { class: "la-bar" }, el("span", {}, `key ${i + 1}`), score, weight, el("div", {}, bar)) };
  });
  const output = el("small");
  const part = (title, hint, ...nodes) => el("div", {}, el("div", { class: "la-head" }, el("b", {}, title), hint), ...nodes);
  la.show(
    el("div", { class: "la-soft-dictionary" },
      part("Keys and query", el("small", {}, "drag the query"), keyPlane.node),
      part("Weights", el("small", {}, "softmax(q·k / T)"), ...bars.map(bar => bar.row)),
      part("Values and output", output, valuePlane.node)),
    el("div", {}, x.row, y.row, heat.row,
      el("button", { type: "button", click: () => set(data.query, data.temperature) }, "Reset")));

  function update() {
    now = attend(query, keys, values, temperature);
    bars.forEach(({ score, weight, bar }, i) => {
      score.textContent = `score ${fixed(now.scores[i], 2)}`;
      weight.textContent = fixed(now.weights[i], 4);
      bar.style.width = `${100 * now.weights[i]}%`;
    });
    const degrees = String(+temperature.toFixed(4));
    x.set(query[0], fixed(query[0], 2));
    y.set(query[1], fixed(query[1], 2));
    heat.set(40 * Math.sqrt(temperature / hottest), temperature < 0.1 ? degrees : fixed(temperature, 2));
    output.textContent = `output ${point(now.output, 4)}`;
    keyPlane.draw();
    valuePlane.draw();
    const each = bars.map(({ score, weight }, i) => `key ${i + 1} has ${score.textContent} and weight ${weight.textContent}`);
    la.say(`Query ${point(query, 2)} at temperature ${degrees}: ${each.join("; ")}; the output is ${point(now.output, 4)}.`);
  }
  update();
}
