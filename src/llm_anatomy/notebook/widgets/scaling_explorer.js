// The weights softmax(z · √d), or softmax(z · √d / √d); the standard deviation of the scores; and the largest entry of the softmax's
// Jacobian diag(α) − ααᵀ, which is α(1 − α) of the largest weight.
function soften(z, width, scaled) {
  const scores = z.map(number => scaled ? number : number * Math.sqrt(width));
  const best = Math.max(...scores), mean = scores.reduce((a, b) => a + b) / scores.length;
  const powers = scores.map(score => Math.exp(score - best)), total = powers.reduce((a, b) => a + b);
  const weights = powers.map(power => power / total), largest = 1 / total;
  const deviation = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / (scores.length - 1));
  // 1 − α as the sum of the other weights, which does not round to zero.
  const others = powers.reduce((sum, power, i) => i === scores.indexOf(best) ? sum : sum + power, 0) / total;
  return { weights, deviation, largest, slope: largest * others };
}

function draw({ scores, widths, start }) {
  const { el, fixed } = la;
  let at = start, scaled = false, now;
  const sorted = [...scores].sort((a, b) => b - a);
  const curve = [false, true].map(how => widths.map(width => soften(scores, width, how).slope));

  const bars = sorted.map(() => el("i"));
  const chart = la.chart(chart => {
    const every = Math.ceil(widths.length / 5), ticks = widths.filter((_, i) => i % every === 0);
    chart.frame({ from: widths[0], to: widths.at(-1), ticks, name: "d_head", log: true }, { from: 0, to: .29, ticks: [0, .1, .2] });
    curve.forEach((values, how) => chart.line(values.map((v, i) => [widths[i], v]), { class: `la-slope${how === +scaled ? " la-now" : ""}` }));
    // One label is above the peak of its curve, the other where the curves are apart.
    const peak = curve[0].indexOf(Math.max(...curve[0])), [level] = curve[1];
    chart.word(widths[peak], curve[0][peak], "as they are");
    chart.word(peak ? widths[0] : widths.at(-1), level, "divided by √d_head", { dy: peak ? 30 : 0 });
    chart.dot(widths[at], now.slope);
  });
  const facts = la.facts(["standard deviation of the scores", "largest weight", "gradient α(1 − α)"]), [deviation, largest, slope] = facts.values;
  const width = la.slider({ name: "d_head", min: 0, max: widths.length - 1, step: 1, input: i => { at = i; update(); } });
  la.show(
    el("div", { class: "la-scaling-explorer" },
      el("div", {}, la.head(`Weights of ${scores.length} keys`, "the best first, on a scale from 0 to 1"),
        el("div", { class: "la-bars", "aria-hidden": true }, ...bars)),
      el("div", {}, la.head("Size of the gradient", "α(1 − α) of the largest weight"), chart.node)),
    width.row,
    el("div", { class: "la-settings" }, la.tick("divide by √d_head", scaled, on => { scaled = on; update(); })),
    facts.node);

  function update() {
    now = soften(sorted, widths[at], scaled);
    bars.forEach((bar, i) => { bar.style.height = `${100 * now.weights[i]}%`; });
    width.set(at, String(widths[at]));
    deviation.textContent = fixed(now.deviation, 2);
    largest.textContent = fixed(now.largest, 4);
    slope.textContent = fixed(now.slope, 4);
    chart.draw();
    la.say(`A head ${widths[at]} wide, scores ${scaled ? "divided by the root of the width" : "as they are"}: their standard deviation is ${
      deviation.textContent}, the largest of ${scores.length} weights is ${largest.textContent}, and the gradient α(1 − α) there is ${slope.textContent}.`);
  }
  update();
}
