// What follows a prediction (.la-fold) stays folded until the reader has committed to a guess or skips; who prefers it sees all
// answers at once, on all pages. The page ends with a summary of how the reader did. All of it stays in the browser.
// A prediction announces itself by the event la:prediction; without scripts there is none, and nothing is folded.
(() => {
  const PRIVATE = "Your results stay in this browser and are sent nowhere.";
  const SWITCH = "la-answers", RECORD = `la-predictions ${location.pathname}`;
  const predictions = new Map(); // by their questions
  const memory = {}; // stands in where the browser stores nothing

  function read(name) {
    try { return JSON.parse(localStorage.getItem(name)) ?? memory[name]; } catch { return memory[name]; }
  }

  function write(name, value) {
    memory[name] = value;
    try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* storage is full or blocked */ }
    settle();
  }

  function foldAgain(name, value) {
    for (const prediction of predictions.values()) prediction.open = false;
    write(name, value);
  }

  function el(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function button(words, click) {
    const node = el("button", { type: "button" }, words);
    node.addEventListener("click", click);
    return node;
  }

  const switchAll = () => button("", () => foldAgain(SWITCH, !read(SWITCH)));

  // Finds the stretch after a prediction, and puts a note before it.
  function attach(prediction) {
    const words = el("span", {}), all = switchAll();
    const next = prediction.target.closest(".cell")?.nextElementSibling;
    prediction.note = { node: el("p", { class: "la-note" }, words, " ", all), words, all };
    if (!next?.matches(".la-fold")) return;
    prediction.fold = next;
    next.before(prediction.note.node);
  }

  const result = el("p", { tabindex: -1 }), all = switchAll();
  const forget = button("Delete my results", () => { foldAgain(RECORD, {}); result.focus(); });
  const summary = el("div", { class: "la-record", role: "group", "aria-label": "Your predictions" }, result, el("p", {}, forget, all));

  // Makes everything on the page agree with what is stored.
  function settle() {
    if (document.readyState === "loading") return;
    const opened = read(SWITCH) === true, record = read(RECORD) ?? {};
    const wording = opened ? "Fold the answers again" : "Show all answers on all pages";
    for (const [question, prediction] of predictions) {
      const known = record[question] ?? (opened ? {} : undefined), shown = JSON.stringify(known);
      if (shown !== prediction.shown) prediction.show(known);
      prediction.shown = shown;
      if (!prediction.note) attach(prediction);
      const { fold, note } = prediction;
      if (!fold) continue;
      const folded = !known && !prediction.open;
      if (folded) fold.setAttribute("hidden", "onbeforematch" in fold ? "until-found" : "");
      else fold.removeAttribute("hidden");
      note.node.hidden = !folded && !(opened && !record[question]);
      note.words.textContent = folded ? "The answer stays folded until you commit to a guess or skip the question." : "";
      note.all.textContent = wording;
    }
    if (!predictions.size) return;
    const stretch = document.querySelector("article.bd-article > section");
    if (!summary.isConnected) stretch?.append(summary);
    result.textContent = summed([...predictions.keys()].map(question => record[question]));
    forget.hidden = !Object.keys(record).length;
    all.textContent = wording;
  }

  function summed(answers) {
    const among = name => answers.filter(answer => answer && name in answer);
    const [guessed, choices, estimates] = ["guess", "right", "off"].map(among);
    const skipped = answers.filter(answer => answer?.state === "skipped").length;
    if (!guessed.length && !skipped) return `This page asks for ${answers.length} prediction${answers.length === 1 ? "" : "s"}. Your results will appear here. ${PRIVATE}`;
    const right = choices.filter(answer => answer.right).length;
    const off = Math.round(100 * estimates.reduce((sum, answer) => sum + answer.off, 0) / estimates.length);
    const parts = [];
    if (choices.length === 1) parts.push(`your choice was ${right ? "right" : "wrong"}`);
    if (choices.length > 1) parts.push(`${right} of ${choices.length} choices ${right === 1 ? "was" : "were"} right`);
    if (estimates.length === 1) parts.push(`your estimate was off by ${off} % of its scale`);
    if (estimates.length > 1) parts.push(`your estimates were off by ${off} % of their scales on average`);
    const how = parts.length ? `: ${parts.join("; ")}` : "";
    return `You made ${guessed.length} of ${answers.length} predictions${how}.${skipped ? ` You skipped ${skipped}.` : ""} ${PRIVATE}`;
  }

  document.addEventListener("la:prediction", ({ target, detail: { state, question, show, ...guess } }) => {
    if (state === "asked") {
      predictions.set(question, { target, show });
      return settle();
    }
    const answer = { state, ...guess };
    predictions.get(question).shown = JSON.stringify(answer); // by itself
    write(RECORD, { ...read(RECORD), [question]: answer });
  });

  // A link, or a search in the page, leads into a fold: it opens.
  function unfold(node) {
    const prediction = [...predictions.values()].find(({ fold }) => fold?.contains(node));
    if (!prediction || prediction.open) return;
    prediction.open = true;
    settle();
    return true;
  }
  function follow() {
    const target = document.querySelector(":target");
    if (unfold(target)) target.scrollIntoView();
  }
  document.addEventListener("beforematch", event => unfold(event.target));
  addEventListener("hashchange", follow);
  addEventListener("load", follow);

  // No answer flashes up while the page is read.
  const page = document.documentElement;
  page.classList.add("la-loading");
  addEventListener("DOMContentLoaded", () => { settle(); follow(); page.classList.remove("la-loading"); });
  addEventListener("storage", settle); // another page
  addEventListener("pageshow", event => { if (event.persisted) settle(); });
})();
