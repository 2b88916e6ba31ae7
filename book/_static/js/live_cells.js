// Runs the cells of a page on a Jupyter server that the reader starts on their own machine: Jupyter's REST interface,
// and its messages as JSON over one WebSocket. Fetched when the reader presses the button, and not before.
(() => {
  const { package: archive } = document.currentScript.dataset;
  const style = new URL("../css/live_cells.css", document.currentScript.src).href;
  const present = document.querySelector(".la-live");
  if (present) return present.focus({ preventScroll: true });

  const el = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name in made) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };
  const button = (text, onclick, more = {}) => el("button", { type: "button", textContent: text, onclick, ...more });
  const hex = (byte) => byte.toString(16).padStart(2, 0);
  const random = (n) => Array.from(crypto.getRandomValues(new Uint8Array(n)), hex).join("");

  // Edits and a tick are kept by the browser; port and token only as long as the tab is open.
  const recall = (area, key, otherwise) => {
    try { return JSON.parse(window[area].getItem(key)) ?? otherwise; } catch { return otherwise; }
  };
  const keep = (area, key, value) => {
    try { window[area].setItem(key, JSON.stringify(value)); } catch { /* this browser keeps nothing */ }
  };
  const EDITS = `la-live ${location.pathname}`;
  const edits = recall("localStorage", EDITS, {}); // the reader's code, by the code in the book
  const unused = { port: 20000 + parseInt(random(2), 16) % 10000, token: random(24) };
  const { port, token } = recall("sessionStorage", "la-live", unused);
  keep("sessionStorage", "la-live", { port, token });

  // What the reader is shown: the command, and how things stand

  const origin = location.protocol === "file:" ? "null" : location.origin;
  const windows = /Windows/.test(navigator.userAgent);
  function command(installs) {
    const folder = windows ? "$HOME\\llm-anatomy" : "~/llm-anatomy";
    const python = windows ? `& ${folder}\\Scripts\\python` : `${folder}/bin/python`;
    const server = `${python} -m jupyter_server --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port=${port} ` +
      `--ServerApp.port_retries=0 --ServerApp.allow_origin=${origin} --IdentityProvider.token=${token}`;
    if (!installs) return server;
    const steps = [`${windows ? "py" : "python3"} -m venv ${folder}`,
      `${python} -m pip install jupyter_server ipykernel ${archive}`, server];
    return steps.join(windows ? "; " : " && ");
  }
  const shown = el("code");
  const copy = button("", async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(shown);
      copy.textContent = "Selected: copy it now";
    }
  });
  const install = el("input", { type: "checkbox", checked: !recall("localStorage", "la-live-installed", false) });
  install.onchange = () => {
    shown.textContent = command(install.checked);
    copy.textContent = "Copy the command";
  };
  install.onchange();
  const notes = {
    "file:": "You opened this page as a file. All such pages have the origin “null”, and any website can make a page " +
      "that has it too, so only the token keeps others out.",
    "https:": "If your browser asks whether this site may reach your own machine, allow it. Chrome, Edge and Firefox " +
      "let an https page do so; Safari does not.",
  };
  const how = el("div", {},
    el("p", {}, "Paste this command into a terminal on your machine", windows ? " (PowerShell)" : "", ". It starts a " +
      "Jupyter server that answers this site only, and the page connects when the server is ready. You need Python " +
      "3.11, 3.12 or 3.13."),
    el("pre", { tabIndex: 0, role: "group", "aria-label": "The command" }, shown),
    el("p", {}, copy, el("label", {}, install, " First install what the cells need, into the folder llm-anatomy in " +
      "your home folder. You do this only once; PyTorch takes a few minutes.")),
    el("p", { className: "la-live-note" }, notes[location.protocol] ?? "", " Anyone who has the token can run code on " +
      "your machine, so keep the command to yourself, and press Ctrl+C in the terminal when you have finished."));
  const status = el("p", { role: "status" });
  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const all = button("Run all cells", () => enqueue(cells), { disabled: true });
  const stop = button("Interrupt", interrupt, { disabled: true });
  const panel = el("section", { className: "la-live", tabIndex: -1, "aria-label": "Run these cells in this page" },
    how, status, el("div", { className: "la-live-row" }, all, stop, button("Close", close)));

  // The server: wait for it, start a kernel, and begin again when either is lost.

  const address = `http://127.0.0.1:${port}`;
  const headers = { Authorization: `token ${token}` };
  const request = (path, options) => fetch(address + path, { headers, ...options });
  const succeeds = (promise) => promise.then(() => true, () => false);
  let kernel = null, socket = null, closed = false;

  async function connect(news = "") {
    how.hidden = false;
    while (!closed && !await succeeds(request("/api/status"))) { // what is refused may not be read, and so fails too
      const other = "It was started by another command: stop it and start it again with the command above.";
      if (await succeeds(fetch(`${address}/api`))) {
        say(`The server on port ${port} refuses the token of this page. ${other}`);
      } else if (await succeeds(fetch(`${address}/api`, { mode: "no-cors" }))) {
        say(`The server on port ${port} does not answer pages of ${origin}. ${other}`);
      } else say(`${news}Waiting for the server on port ${port} of this machine …`);
      await new Promise((done) => setTimeout(done, 1000));
    }
    if (closed) return;
    say("The server is ready. Python is starting …");
    const answer = await request("/api/kernels", { method: "POST", body: "{}" });
    const made = await answer.json();
    if (!answer.ok) throw new Error(made.message);
    kernel = made.id;
    socket = new WebSocket(`${address.replace("http", "ws")}/api/kernels/${kernel}/channels?token=${token}`);
    socket.onmessage = ({ data }) => typeof data === "string" && receive(JSON.parse(data));
    socket.onclose = () => lose("The connection to the server was lost. ");
    await new Promise((done) => { socket.onopen = done; });
    // Widgets are to come in their form for pages, which works without a kernel.
    const ready = await execute('import os; os.environ["LLM_ANATOMY_STATIC"] = "1"', () => {});
    if (ready.status !== "ok") return;
    keep("localStorage", "la-live-installed", true);
    how.hidden = true;
    all.disabled = false;
    for (const cell of cells) cell.open();
    say(`${news}Connected. Click into a cell to change it. Ctrl+Enter runs it; Shift+Enter runs it and goes to the next cell.`);
  }

  function start(news) {
    connect(news).catch(({ message }) => say(`Python does not start: ${message}. Close this panel and try again.`));
  }

  function lose(reason) {
    if (closed) return;
    disconnect(`${reason}The variables of the cells that had run are lost.`);
    all.disabled = true;
    start(reason);
  }

  function disconnect(reason) {
    if (socket) socket.onclose = null;
    socket?.close();
    if (kernel) succeeds(request(`/api/kernels/${kernel}`, { method: "DELETE", keepalive: true }));
    socket = kernel = null;
    for (const { lost } of [...running.values()]) lost(reason);
    for (const cell of cells) cell.ran = false;
  }

  function leave() { // a page that the browser brings back begins again
    if (socket) lose("You left the page. ");
  }

  function close() {
    closed = true;
    disconnect("");
    removeEventListener("pagehide", leave);
    for (const cell of cells) cell.close();
    panel.remove();
    document.querySelector(".dropdown-launch-buttons > button").focus();
  }

  // Messages

  const running = new Map(); // by the id of a request: hear(type, content), and lost(reason) if no answer can come

  function receive({ header, parent_header: parent, content }) {
    if (header.msg_type === "status" && ["restarting", "dead"].includes(content.execution_state)) {
      lose("Python stopped, perhaps because it ran out of memory. ");
    } else running.get(parent.msg_id)?.hear(header.msg_type, content);
  }

  // Calls show(type, content) for each output, and returns {status, …} when the answer is complete.
  function execute(code, show) {
    return new Promise((done) => {
      const id = random(16);
      let reply = null, idle = false;
      const end = (result) => {
        running.delete(id);
        done(result);
      };
      running.set(id, {
        lost: (reason) => end({ status: "lost", reason }),
        hear(type, content) {
          if (type === "execute_reply") reply = content;
          else if (type === "status") idle ||= content.execution_state === "idle";
          else show(type, content);
          if (reply && idle) end(reply);
        },
      });
      const header = { msg_id: id, msg_type: "execute_request", session: kernel, username: "reader", version: "5.3" };
      const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
      socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: "shell" }));
    });
  }

  const queue = [];
  async function enqueue(list) {
    const idle = stop.disabled;
    queue.push(...list);
    for (const cell of list) cell.note.textContent = "waiting";
    stop.disabled = false;
    while (idle && queue.length) if (!await queue.shift().run()) empty();
    if (idle) stop.disabled = true;
  }
  function empty() {
    for (const cell of queue.splice(0)) cell.note.textContent = "not run";
  }
  function interrupt() {
    empty();
    succeeds(request(`/api/kernels/${kernel}/interrupt`, { method: "POST" }));
  }

  // Outputs look as they do in the book.

  const plain = (text) => text.replace(/\x1b\[[\d;]*[A-Za-z]/g, "").replace(/\r+\n/g, "\n").replace(/^.*\r/gm, "");
  const printed = (text, kind) => el("div", { className: `output ${kind} highlight-myst-ansi notranslate` },
    el("div", { className: "highlight" }, el("pre", { textContent: plain(text) })));

  function rendered(data, metadata = {}) {
    const markup = data["text/html"] ?? data["image/svg+xml"];
    const type = ["image/png", "image/jpeg"].find((mime) => data[mime]);
    if (markup) {
      const box = el("div", { className: "output text_html", innerHTML: markup });
      for (const image of box.querySelectorAll('img[src^="data:image/svg+xml;base64,"]')) { // there it sees the page's colours
        image.outerHTML = new TextDecoder().decode(Uint8Array.from(atob(image.src.split(",")[1]), (c) => c.charCodeAt(0)));
      }
      for (const dead of box.querySelectorAll("script")) { // a script in innerHTML does not run; a new one does
        const script = el("script", { textContent: dead.textContent });
        for (const { name, value } of dead.attributes) script.setAttribute(name, value);
        dead.replaceWith(script);
      }
      return box;
    }
    if (!type) return printed(data["text/plain"] ?? "", "text_plain");
    const image = el("img", { src: `data:${type};base64,${data[type]}`, alt: data["text/plain"] ?? "" });
    if (metadata[type]?.width) image.style.width = `${metadata[type].width}px`;
    return image;
  }

  class Cell {
    constructor(box, index) {
      const input = box.querySelector(".cell_input");
      const number = index + 1;
      this.name = `Cell ${number}`;
      this.number = number;
      this.input = input.closest("details") ?? input; // a folded one has its buttons outside
      this.pre = input.querySelector("pre");
      this.out = box.querySelector(".cell_output") ?? el("div", { className: "cell_output docutils container" });
      this.book = { html: this.pre.innerHTML, code: this.pre.textContent.trimEnd(), outputs: [...this.out.childNodes] };
      this.note = el("span", { className: "la-live-state" });
      this.undo = button("Reset this cell", () => this.reset(), { "aria-label": `Reset this cell, ${number}` });
      const above = button("Run all above", () => enqueue(cells.slice(0, index)), { hidden: !index });
      above.setAttribute("aria-label", `Run all above cell ${number}`);
      const run = button("Run", () => enqueue([this]), { "aria-label": `Run cell ${number}` });
      this.bar = el("div", { className: "la-live-row la-live-bar" }, run, above, this.undo, this.note);
      this.pre.addEventListener("input", () => this.edit(this.pre.innerText));
      this.pre.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.isComposing && this.bar.isConnected) this.enter(event);
      });
    }

    open() {
      if (this.bar.isConnected) return;
      const field = { contenteditable: "plaintext-only", role: "textbox", "aria-multiline": true, spellcheck: false };
      for (const [name, value] of Object.entries(field)) this.pre.setAttribute(name, value);
      this.pre.setAttribute("aria-label", `Code of cell ${this.number}`);
      this.input.after(this.bar);
      if (!this.out.isConnected) this.bar.after(this.out);
      if (this.book.code in edits) this.pre.textContent = edits[this.book.code];
      this.edit(this.pre.textContent);
    }

    edit(code) {
      this.code = code.trimEnd();
      if (this.code === this.book.code) delete edits[this.code];
      else edits[this.book.code] = this.code;
      keep("localStorage", EDITS, edits);
      this.undo.hidden = this.code === this.book.code && !this.changed;
    }

    enter(event) {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.shiftKey) {
        enqueue([this]);
        if (event.shiftKey) cells.slice(this.number).find(({ pre }) => pre.checkVisibility())?.pre.focus();
        return;
      }
      const range = getSelection().getRangeAt(0).cloneRange();
      range.setStart(this.pre, 0);
      const before = range.cloneContents();
      for (const line of before.querySelectorAll("br")) line.replaceWith("\n");
      const [indent] = before.textContent.split("\n").pop().match(/^ */);
      document.execCommand("insertText", false, `\n${indent}`);
    }

    async run() {
      this.ran = false;
      this.note.textContent = all.disabled ? "not connected" : "running";
      if (all.disabled) return false;
      say(`${this.name} of ${cells.length} is running.`);
      const { status, ename, evalue, reason } = await this.execute();
      if (closed) return false;
      this.ran = status === "ok";
      this.note.textContent = this.ran ? "has run" : "stopped";
      if (this.ran) {
        const folded = this.out.childNodes.length && !this.out.checkVisibility();
        say(`${this.name} of ${cells.length} has run.${folded ? " Its output is folded." : ""}`);
      } else {
        const early = ename === "NameError" && cells.slice(0, this.number - 1).some(({ ran }) => !ran);
        const error = reason ?? [ename, evalue].filter(Boolean).join(": ");
        say(`${this.name} stopped. ${error}${early ? ". “Run all above” runs the cells that come before it." : ""}`);
      }
      return this.ran;
    }

    async execute() {
      const code = this.code;
      let old = true; // what stands below the cell goes when there is something new
      let stream = null;
      const put = (node) => {
        if (old) this.out.replaceChildren();
        old = false;
        this.out.append(node);
      };
      const result = await execute(code, (type, content) => {
        if (type === "stream" && stream?.name === content.name && !old) {
          stream.text += content.text;
          stream.pre.textContent = plain(stream.text);
          return;
        }
        stream = null;
        if (type === "stream") {
          const node = printed(content.text, content.name === "stderr" ? "stderr" : "stream");
          stream = { ...content, pre: node.querySelector("pre") };
          put(node);
        } else if (type === "display_data" || type === "execute_result") {
          put(this.same(content.data["text/html"]) ?? rendered(content.data, content.metadata));
          globalThis.llmAnatomy?.start(); // a widget that is new
        } else if (type === "error") put(printed(content.traceback.join("\n"), "traceback"));
        else if (type === "clear_output") old = true;
      });
      if (result.status === "lost") put(el("p", {}, result.reason));
      else if (old) this.out.replaceChildren();
      this.changed = true;
      this.undo.hidden = false;
      return result;
    }

    // A widget that comes out the same stays as the reader left it.
    same(html = "") {
      const [key] = html.match(/data-la="[\w-]+"/) ?? [];
      return key && [...this.book.outputs, ...this.out.childNodes].find((node) => node.querySelector?.(`[${key}]`));
    }

    reset() {
      this.pre.innerHTML = this.book.html;
      this.out.replaceChildren(...this.book.outputs);
      this.changed = false;
      this.note.textContent = "";
      this.edit(this.book.code);
      this.pre.focus();
    }

    close() {
      this.pre.innerHTML = this.book.html;
      this.out.replaceChildren(...this.book.outputs);
      for (const name of ["contenteditable", "role", "aria-multiline", "aria-label"]) this.pre.removeAttribute(name);
      this.bar.remove();
    }
  }

  const boxes = document.querySelectorAll(".bd-article div.cell:has(.cell_input)");
  const cells = Array.from(boxes, (box, index) => new Cell(box, index));
  const sheet = el("link", { rel: "stylesheet", href: style });
  sheet.onload = sheet.onerror = () => { // now the panel stands at the foot of the window, wherever the reader is
    document.querySelector(".bd-article").after(panel);
    panel.focus({ preventScroll: true });
  };
  document.head.append(sheet);
  addEventListener("pagehide", leave);
  start();
})();
