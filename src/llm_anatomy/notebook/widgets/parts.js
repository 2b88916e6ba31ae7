// A heading with a hint beside it, and further elements in its line.
la.head = (words, hint, ...nodes) => la.el("div", { class: "la-heading" }, la.el("b", {}, words), la.el("small", {}, hint), ...nodes);

// Numbers with labels; `values[i].textContent` sets one.
la.facts = words => {
  const labels = words.map(text => la.el("small", {}, text)), values = words.map(() => la.el("b"));
  return { labels, values, node: la.el("div", { class: "la-facts" }, ...values.map((value, i) => la.el("div", {}, labels[i], value))) };
};

// Follows mouse, pen or finger over a node, and takes a tap. Where a finger may scroll the page, only its horizontal
// movements count.
la.drag = (node, at, begin = () => {}) => {
  let start;
  const sideways = e => getComputedStyle(node).touchAction === "none" || Math.abs(e.clientX - start[0]) > 8 + 2 * Math.abs(e.clientY - start[1]);
  node.addEventListener("pointerdown", e => {
    node.setPointerCapture(e.pointerId);
    start = [e.clientX, e.clientY];
    begin(e);
    if (e.pointerType !== "touch") at(e);
  });
  node.addEventListener("pointermove", e => {
    if (node.hasPointerCapture(e.pointerId) && (e.pointerType !== "touch" || sideways(e))) at(e);
  });
  node.addEventListener("pointerup", e => { // a tap; scrolling the page ends in pointercancel
    if (start && Math.hypot(e.clientX - start[0], e.clientY - start[1]) < 8) at(e);
  });
};
