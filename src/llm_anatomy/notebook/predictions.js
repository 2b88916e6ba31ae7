// A choice (`choices`) or an estimate (`low` to `high`): the answer is shown once the reader has committed to a guess.
function draw(data) {
  const { el } = la, { choices, answer, explanation } = data;
  const commit = el("button", { type: "button", click: reveal }, "Commit to this guess");
  const outcome = el("p", { tabindex: -1, hidden: true });
  const ask = choices ? choose() : estimate();
  la.text.textContent = "";
  la.show(el("fieldset", { class: "la-prediction" }, el("legend", {}, data.question), ...ask.nodes, commit, outcome));

  function reveal() {
    const words = [ask.verdict(), explanation].join(" ").trim();
    for (const input of ask.inputs) input.disabled = true;
    outcome.textContent = words;
    outcome.hidden = false;
    outcome.focus({ preventScroll: true });
    commit.remove();
  }

  function choose() {
    const inputs = choices.map((_, i) => el("input", { type: "radio", name: la.text.id, value: i, change: () => { commit.disabled = false; } }));
    const nodes = choices.map((choice, i) => el("label", {}, inputs[i], el("span", {}, choice)));
    commit.disabled = true;
    return {
      inputs, nodes,
      verdict() {
        const guess = inputs.findIndex(input => input.checked);
        nodes[guess].append(el("b", {}, guess === answer ? "your guess, and right" : "your guess"));
        if (guess !== answer) nodes[answer].append(el("b", {}, "the answer"));
        nodes[answer].classList.add("la-answer");
        return guess === answer ? "As you predicted." : "Not as you predicted.";
      },
    };
  }

  function estimate() {
    const { low, high, digits, unit } = data;
    const written = number => `${la.fixed(number, digits)} ${unit}`.trim();
    let guess = (low + high) / 2;
    const move = number => { guess = number; slider.set(number, written(number)); };
    const slider = la.slider({ name: "your guess", min: low, max: high, step: 10 ** -digits, ends: [written(low), written(high)], input: move });
    move(+guess.toFixed(digits));
    return {
      inputs: slider.row.querySelectorAll("input"), nodes: [slider.row],
      verdict() {
        const mark = el("b", { class: "la-mark" }, "answer");
        mark.style.setProperty("--la-at", (answer - low) / (high - low));
        slider.row.querySelector(".la-track").append(mark);
        return `You guessed ${written(guess)}; the answer is ${written(answer)}.`;
      },
    };
  }
}
