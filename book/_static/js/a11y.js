// Names that the theme leaves out or gets wrong, for those who hear the page instead of seeing it.
addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);
  for (const summary of all(".has-children > details > summary")) {
    const chapter = summary.closest("li").querySelector("a")?.textContent.trim() ?? "this chapter";
    summary.setAttribute("aria-label", `Sections of ${chapter}`);
  }
  // A list of citations is written with roles that do not go together.
  for (const node of all(".citation-list, .citation")) node.removeAttribute("role");
  // The parameters of a signature are written as definitions without terms.
  for (const node of all("dt.sig dl, dt.sig dd")) node.setAttribute("role", "none");
  // Their visible text is their name; the label hides it.
  for (const summary of all("summary[aria-label='Toggle hidden content']")) summary.removeAttribute("aria-label");
});
