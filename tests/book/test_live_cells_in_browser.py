"""Cells that run in the page: the real script in a browser, against a real Jupyter server on this machine."""

import http.server
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import partial

import pytest
from chromium import process

from bookbinder import ROOT, address

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not importlib.util.find_spec("jupyter_server"),
        reason="no Jupyter server to run the cells of a page on: pip install -r requirements.txt",
    ),
]
CHAPTER, EXERCISES = "book/attention/attention.html", "book/attention/exercises.html"
CONNECTED = re.compile("Connected")
ROOT_TOO = ["--allow-root"] * (hasattr(os, "geteuid") and os.geteuid() == 0)  # as in a container


class Panel:
    """What the reader has in front of them after pressing *Run these cells*, *In this page*."""

    def __init__(self, page):
        self.page = page
        page.get_by_role("button", name="Run these cells").click()
        page.get_by_role("button", name="In this page").click()
        self.box = page.get_by_role("region", name="Run these cells in this page")
        self.box.wait_for()
        self.status = self.box.get_by_role("status")
        self.shown = self.box.get_by_role("group", name="The command")
        self.command = self.shown.inner_text()

    def says(self, words):
        self.status.filter(has_text=words).wait_for()

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def code(self, number):
        return self.page.get_by_role("textbox", name=f"Code of cell {number}", exact=True)

    def cell(self, number):
        return self.page.locator("div.cell:has(.cell_input)").nth(number - 1)

    def run(self, number, code, says=None):
        """What a cell prints when it has been run with this code, and the panel says so, or says something else."""
        self.code(number).fill(code)
        self.code(number).press("Control+Enter")
        self.says(says or re.compile(rf"Cell {number} of \d+ has run"))
        return self.cell(number).locator(".cell_output").inner_text()


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """``start(command)`` runs the last step of the printed command with this Python, and gives the process."""
    home = tmp_path_factory.mktemp("server")
    folders = {f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    alone = {"JUPYTER_NO_CONFIG": "1", "PYTHONPATH": str(ROOT / "src")}  # without JupyterLab's extensions
    with ExitStack() as servers:

        def run(command):
            _, *arguments = shlex.split(command.split(" && ")[-1])
            command = [sys.executable, *arguments, *ROOT_TOO]
            environment = os.environ | folders | alone
            return servers.enter_context(process(command, cwd=home, env=environment, stderr=subprocess.DEVNULL))

        yield run


@pytest.fixture(scope="module")
def shared():
    """What a tab keeps of the server that it is connected with, which the other tests' tabs are connected with too."""
    return []


@pytest.fixture
def connected(site, visit, start, shared):
    """``connected(page)`` opens a page of the book and connects it with the shared server, started by the first."""

    def opened(name, **options):
        page = visit(f"{site}/{name}", formulas=False, **options)
        for kept in shared:
            page.evaluate("kept => sessionStorage.setItem('la-live', kept)", kept)
        made = Panel(page)
        if not shared:
            start(made.command)
            shared.append(page.evaluate("sessionStorage.getItem('la-live')"))
        made.says(CONNECTED)
        return made

    return opened


def test_the_button_fetches_the_script_and_shows_a_command_that_admits_this_site_alone(site, visit):
    page = visit("about:blank", formulas=False)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/{EXERCISES}", wait_until="networkidle")
    assert not [url for url in asked if "live_cells" in url]
    panel = Panel(page)
    assert [url for url in asked if url.endswith("live_cells.js")]
    menu = page.locator(".dropdown-launch-buttons")
    assert "colab.research.google.com" in menu.get_by_role("link", include_hidden=True).get_attribute("href")

    make, install, server = panel.command.split(" && ")
    assert make == "python3 -m venv ~/llm-anatomy"
    assert install.endswith(f" -m pip install jupyter_server ipykernel {address.read().archive}")
    options = dict(option.split("=") for option in server.split() if "=" in option)
    assert options["--ServerApp.allow_origin"] == site and options["--ServerApp.ip"] == "127.0.0.1"
    assert len(options["--IdentityProvider.token"]) == 48
    panel.box.get_by_role("checkbox").uncheck()
    assert panel.shown.inner_text() == server
    other = Panel(visit(f"{site}/{EXERCISES}", formulas=False))
    assert options["--IdentityProvider.token"] not in other.command


def test_a_cell_is_changed_and_run_and_reset(connected):
    panel = connected(EXERCISES)
    printed, before = (panel.cell(2).locator(part).inner_text() for part in (".cell_input pre", ".cell_output"))
    code = panel.code(2)
    code.focus()
    panel.page.keyboard.press("Control+A")
    panel.page.keyboard.type("for n in range(2):\n    print(n, 6 * 7)\nprint('ende')")  # an indent is carried on
    assert code.inner_text().rstrip() == "for n in range(2):\n    print(n, 6 * 7)\n    print('ende')"
    panel.page.keyboard.press("Shift+Enter")
    panel.says(re.compile(r"Cell 2 of \d+ has run"))
    assert panel.cell(2).locator(".cell_output").inner_text().split() == ["0", "42", "ende", "1", "42", "ende"]
    assert panel.code(3).evaluate("field => field === document.activeElement")

    panel.page.reload()  # the edit is still there, and so is the server
    panel = Panel(panel.page)
    panel.says(CONNECTED)
    assert "6 * 7" in panel.code(2).inner_text()
    assert panel.cell(2).locator(".cell_output").inner_text() == before
    panel.button("Run cell 2").click()
    panel.says(re.compile(r"Cell 2 of \d+ has run"))
    assert "0 42" in panel.cell(2).locator(".cell_output").inner_text()
    panel.button("Reset this cell, 2").click()
    assert panel.cell(2).locator(".cell_input pre").inner_text() == printed
    assert panel.cell(2).locator(".cell_output").inner_text() == before
    assert panel.page.evaluate("localStorage.getItem('la-live ' + location.pathname)") == "{}"


def test_all_above_runs_folded_cells_too_and_renews_figures(connected):
    panel = connected(CHAPTER)
    page = panel.page
    boxes = page.locator("div.cell:has(.cell_input)")
    has_picture = boxes.evaluate_all("all => all.findIndex(box => box.querySelector('.cell_output .la-figure'))")
    last = has_picture + 2
    page.locator("la-fold").evaluate_all("all => all.forEach(fold => fold.hidden = false)")
    folded = page.locator("div.cell.tag_hide-input").first
    alt = boxes.nth(has_picture).locator(".la-figure").get_attribute("aria-label")
    panel.button(f"Run cell {last}").click()
    panel.says("“Run all above” runs the cells that come before it.")
    assert "Traceback" in panel.cell(last).locator(".traceback").inner_text()
    panel.button(f"Run all above cell {last}").click()
    panel.says(f"Cell {last - 1} of {boxes.count()} has run.")
    assert "has run" in folded.locator(".la-live-bar").inner_text() and not folded.locator("pre").first.is_visible()
    figure = boxes.nth(has_picture).locator(".cell_output .la-figure")
    assert figure.count() == 1 and figure.get_attribute("aria-label") == alt
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_goes_wrong_is_said_also_on_a_page_that_is_a_file(site_folder, visit, start):
    panel = Panel(visit((site_folder / EXERCISES).as_uri(), width=390, formulas=False))
    assert "--ServerApp.allow_origin=null " in panel.command
    assert "All such pages have the origin" in panel.box.inner_text()
    server = start(panel.command)
    panel.says(CONNECTED)
    shown = panel.run(1, "print('one')\nimport math\n1 / 0", "Cell 1 stopped. ZeroDivisionError: division by zero")
    assert shown.startswith("one") and "----> 3 1 / 0" in shown and "\x1b" not in shown

    panel.code(1).fill("print('begun', flush=True)\nwhile True: pass")
    panel.button("Run cell 1").click()
    panel.button("Run cell 2").click()
    panel.cell(1).get_by_text("begun", exact=True).wait_for()
    panel.button("Interrupt").click()
    panel.says("Cell 1 stopped. KeyboardInterrupt")
    assert "not run" in panel.cell(2).locator(".la-live-bar").inner_text()

    panel.code(1).fill("import os\nos._exit(1)")
    panel.button("Run cell 1").click()
    panel.says("Python stopped, perhaps because it ran out of memory. Connected")
    assert "The variables of the cells that had run are lost." in panel.cell(1).locator(".cell_output").inner_text()

    server.terminate()
    panel.says("The connection to the server was lost. Waiting for the server")
    server.wait(60)
    start(panel.command)
    panel.says(CONNECTED)
    assert panel.run(1, "print(40 + 2)").strip() == "42"

    panel.button("Close").click()
    assert panel.page.locator(".la-live, .la-live-bar, [contenteditable]").count() == 0


ASK = """async ([port, token]) => {
  const outcome = [];
  for (const headers of [{}, {Authorization: `token ${token}`}])
    outcome.push(await fetch(`http://127.0.0.1:${port}/api/kernels`, {headers}).then(r => r.status, e => e.name));
  return outcome;
}"""
PASS_ON = "([port, token]) => sessionStorage.setItem('la-live', JSON.stringify({port: +port, token}))"


def test_another_origin_and_another_token_are_refused(site_folder, visit, connected):
    """Without the token nobody is answered; with it, a page of another origin still may not read the answer."""
    panel = connected(EXERCISES)
    port, token = (re.search(rf"{name}=(\w+)", panel.command)[1] for name in ("port", "token"))
    assert panel.page.evaluate(ASK, [port, token])[1] == 200
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(site_folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        there = f"http://127.0.0.1:{elsewhere.server_port}"
        try:
            page = visit(f"{there}/{EXERCISES}", formulas=False)
            assert page.evaluate(ASK, [port, token]) == ["TypeError", "TypeError"]
            page.evaluate(PASS_ON, [port, token])
            Panel(page).says(f"does not answer pages of {there}")
        finally:
            elsewhere.shutdown()
    panel.page.evaluate(PASS_ON, [port, "another"])
    panel.page.reload()
    Panel(panel.page).says("refuses the token of this page. It was started by another command: stop it")


FIRST_CELLS = """number => [...document.querySelectorAll("div.cell:has(.la-live-bar)")].slice(0, number).forEach(
    cell => cell.classList.add("la-first"))"""


@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.slow), ("dark", 390)])
def test_panel_and_cells_break_no_rule(connected, breaches, scheme, width):
    """All cells are alike: the rules are applied to the first ones, and the rest of the page is another test's."""
    page = connected(EXERCISES, width=width, color_scheme=scheme).page
    page.evaluate("document.querySelector('.la-live > div').hidden = false")  # the command too
    page.evaluate(FIRST_CELLS, 4)
    assert breaches(page, ".la-live, .la-first") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
