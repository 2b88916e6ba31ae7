// The solution of an exercise stays away until the reader says that the exercise is passed or skipped, or until its check
// passes in this page. The browser remembers it, and nothing leaves the browser. Without scripts, a solution is a plain fold.
addEventListener("DOMContentLoaded", () => {
  const DONE = `la-exercises ${location.pathname}`;
  let done = {}; // by the exercise's heading
  try { done = JSON.parse(localStorage.getItem(DONE)) ?? {}; } catch { /* this browser keeps nothing */ }

  for (const solution of document.querySelectorAll("details.la-solution")) {
    const section = solution.closest("section"), name = section.id;
    const note = document.createElement("p");
    note.className = "la-note";
    note.append("The solution appears when you have passed or skipped the exercise.", document.createElement("br"));
    for (const [words, open] of [["I have passed it", false], ["Skip this exercise", true]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words;
      button.setAttribute("aria-label", `${words}: ${section.querySelector("h2").firstChild.textContent}`);
      button.onclick = () => { finish(); solution.open = open; solution.querySelector("summary").focus(); };
      note.append(button, "\u2003");
    }
    const settle = () => { solution.hidden = !done[name]; note.hidden = !!done[name]; };
    const finish = () => {
      done[name] = true;
      try { localStorage.setItem(DONE, JSON.stringify(done)); } catch { /* storage is full or blocked */ }
      settle();
    };
    solution.before(note);
    settle();
    const passed = () => [...section.querySelectorAll(".cell_output")].some((output) => /\bPassed: \d/.test(output.textContent));
    new MutationObserver(() => { if (!done[name] && passed()) finish(); }).observe(section, { childList: true, subtree: true });
  }
});
