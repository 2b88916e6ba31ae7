// Two conveniences; the pages work without them.

// Keys 1 to 4 vote, if the voter has asked for it: a single key that is always active disturbs speech input.
const form = document.querySelector("form.votes");
if (form) {
  const box = document.getElementById("keys");
  const remembered = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("arena-keys", value);
      return localStorage.getItem("arena-keys") === "true";
    } catch {
      return false; // storage is not allowed
    }
  };
  box.checked = remembered();
  box.closest("p").hidden = false;
  box.addEventListener("change", () => remembered(box.checked));
  document.addEventListener("keydown", (event) => {
    const button = form.querySelectorAll("button")["1234".indexOf(event.key)];
    if (box.checked && button && !event.repeat && !event.ctrlKey && !event.altKey && !event.metaKey) button.click();
  });
}

// The board is fetched again every five seconds, until somebody stops it.
const live = document.getElementById("live");
if (live) {
  const pause = document.getElementById("pause");
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  pause.closest("p").hidden = false;
  pause.addEventListener("click", () => pause.setAttribute("aria-pressed", !paused()));
  setInterval(async () => {
    if (paused() || document.hidden || live.contains(document.activeElement)) return;
    try {
      const response = await fetch("/board");
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      live.replaceChildren(...page.getElementById("live").childNodes);
    } catch {
      // the server is away; the next try may reach it
    }
  }, 5000);
}
