// A choice of one of several, as radio buttons in a row; the arrow keys move through them, and so does the mouse if `hover`.
// `set` chooses from outside.
la.choice = (name, options, input, hover) => {
  const group = `${la.text.id} ${name}`;
  const buttons = options.map((_, i) => la.el("input", { type: "radio", name: group, value: i, change: () => input(i) }));
  const labels = options.map((words, i) => la.el("label",
    { class: "la-option", ...hover && la.hover(() => input(i)) }, buttons[i], la.el("span", {}, words)));
  return {
    labels, node: la.el("div", { class: "la-options", role: "radiogroup", "aria-label": name }, ...labels),
    set(i) { buttons[i].checked = true; },
  };
};

// The listener that picks what the mouse moves to, but not what scrolls under a mouse at rest.
la.hover = pick => ({ pointermove(e) { if (e.pointerType === "mouse") pick(); } });

// A checkbox.
la.tick = (name, checked, input) => {
  const box = la.el("input", { type: "checkbox", change: () => input(box.checked) });
  box.checked = checked;
  return la.el("label", { class: "la-tick-box" }, box, la.el("span", {}, name));
};
