// A choice (`choices`) or an estimate (`low` to `high`): the answer is shown when the reader has committed to a guess,
// or skips.
// The event la:prediction tells the page. Its state is "asked" at first, with `show`: `show({ guess })` repeats a guess
// of an
// earlier visit, `show({})` shows the answer alone, `show()` asks again. Then it is "committed" or "skipped".
// It returns the element to be shown, and a function that asks, to be called when it is in the page.
function question(data) {
  const [answer, explanation] = JSON.parse(atob(data.sealed.slice("base64:".length)));
  const form = el("fieldset", { class: "la-prediction" });

  function show(known) {
    const ask = data.choices ? choose() : estimate();
    const commit = el("button", { type: "button", click: () => answered("committed", ask.guess()) },
      "Commit to this guess");
    const skip = el("button", { type: "button", click: () => answered("skipped") }, "Skip");
    const outcome = el("p", { tabindex: -1 });
    commit.disabled = ask.guess() === undefined;
    for (const input of ask.inputs) input.addEventListener("input", () => { commit.disabled = false; });
    form.replaceChildren(el("legend", {}, data.question), ...ask.nodes, commit, skip);
    if (known) reveal(known.guess);

    function reveal(guess) {
      for (const input of ask.inputs) input.disabled = true;
      outcome.textContent = `${ask.compare(guess)} ${explanation}`.trim();
      commit.remove();
      skip.replaceWith(outcome);
    }

    function answered(state, guess) {
      reveal(guess);
      outcome.focus({ preventScroll: true });
      tell(state, guess === undefined ? {} : { guess, answer: data.choices?.[answer] ?? answer, ...ask.judge(guess) });
    }
  }

  function tell(state, more) {
    const detail = { state, question: data.question, ...more };
    form.dispatchEvent(new CustomEvent("la:prediction", { bubbles: true, composed: true, detail }));
  }

  function choose() {
    const name = `guess-${Math.random()}`;
    const inputs = data.choices.map(choice => el("input", { type: "radio", name, value: choice }));
    const nodes = data.choices.map((choice, i) => el("label", {}, inputs[i], el("span", {}, choice)));
    const right = data.choices[answer];
    return {
      inputs, nodes,
      guess: () => inputs.find(input => input.checked)?.value,
      judge: guess => ({ right: guess === right }),
      compare(guess) {
        const chosen = data.choices.indexOf(guess);
        if (chosen >= 0) inputs[chosen].checked = true;
        nodes[chosen]?.append(el("b", {}, chosen === answer ? "your guess, which is right" : "your guess"));
        if (chosen !== answer) nodes[answer].append(el("b", {}, "the answer"));
        nodes[answer].classList.add("la-answer");
        return guess === right ? "You predicted this." : chosen < 0 ? "" : "You predicted something else.";
      },
    };
  }

  function estimate() {
    const { low, high, digits, unit } = data;
    const written = number => `${fixed(number, digits)} ${unit}`.trim();
    let guess;
    const move = number => { guess = number; control.set(number, written(number)); };
    const control = slider({ name: "your guess", min: low, max: high, step: 10 ** -digits,
      ends: [written(low), written(high)], input: move });
    move(+((low + high) / 2).toFixed(digits));
    return {
      inputs: control.node.querySelectorAll("input"), nodes: [control.node],
      guess: () => guess,
      judge: guess => ({ off: Math.abs(guess - answer) / (high - low) }),
      compare(guess) {
        if (guess === undefined) {
          control.node.remove();
          return `The answer is ${written(answer)}.`;
        }
        const mark = el("b", { class: "la-mark" }, "answer");
        mark.style.setProperty("--la-at", (answer - low) / (high - low));
        control.node.querySelector(".la-track").append(mark);
        move(guess);
        return `You guessed ${written(guess)}; the answer is ${written(answer)}.`;
      },
    };
  }

  show();
  return { form, asked: () => tell("asked", { show }) };
}

// A widget of the kind "prediction".
function prediction(spec, model, say, { text }) {
  const { form, asked } = question(spec);
  text.textContent = "";
  return { nodes: [form], begin: asked };
}
