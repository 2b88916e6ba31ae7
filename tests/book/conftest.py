"""A browser that sees nothing but this machine, and the book served from it."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from filelock import FileLock

from llm_anatomy.notebook.front_end import PAPER

ROOT = Path(__file__).parents[2]
HOW_TO_GET_IT = (
    "no Chromium found: install it (on Debian and Ubuntu: apt-get install chromium) or name it in CHROMIUM=/path/to/it"
)

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ACCEPTED: dict[str, str] = {}  # rule: why the theme's breach of it is borne with; none at present

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>html[data-theme=light] body {{ background: #ffffff; color: #222832 }}
html[data-theme=dark] body {{ background: GROUND; color: #ced6dd }}
body {{ margin: 0 auto; max-width: 740px; padding: 20px }}</style>{body}</html>""".replace("GROUND", PAPER["dark"])


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, or a skip that says how to get it. It reaches this machine and no other."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(HOW_TO_GET_IT)
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -r requirements.txt")
    flags = ["disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync", "no-first-run"]
    flags += ["no-sandbox", "disable-dev-shm-usage", "proxy-server=127.0.0.1:9"]  # nobody listens on port 9
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=[f"--{flag}" for flag in flags])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def profile(browser):
    """``profile(**options)``: the profile of all readers with these options, made once: a new one takes seconds."""
    made = {}

    def of(**options):
        key = tuple(sorted(options.items()))
        if key not in made:
            made[key] = browser.new_context(**options)
            made[key].set_default_timeout(60_000)
            made[key].new_page()  # kept open, and with it what the browser has compiled and stored
        return made[key]

    return of


class Tab:
    """A tab, what it asks of other hosts, and the errors of its scripts."""

    def __init__(self, profile):
        self.page, self.foreign, self.errors, self.origins = profile.new_page(), [], [], set()
        self.page.on("request", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, request):
        address = urlsplit(request.url)
        if address.hostname and address.hostname not in ("127.0.0.1", "localhost"):
            self.foreign.append(request.url)

    def open(self, address, width=1280, color_scheme="light", script=""):
        self.page.add_init_script(script)
        self.origins.add("{0.scheme}://{0.netloc}".format(urlsplit(address)))
        self.page.set_viewport_size({"width": width, "height": 844})
        self.page.emulate_media(color_scheme=color_scheme)
        self.page.goto(address)
        return self.page

    def close(self):
        """Close it and forget what its pages have stored."""
        session = self.page.context.new_cdp_session(self.page)
        for origin in self.origins:
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        self.page.close()

    def check(self):
        """Fail if a request would have left this machine, or a script has failed.

        The theme has one error: it declares THEBE_JS_URL twice, to no effect.
        """
        assert not self.foreign, f"the page asked other hosts: {self.foreign}"
        errors = [error for error in self.errors if "THEBE_JS_URL" not in error]
        assert not errors, f"a script failed: {errors}"


@pytest.fixture
def visit(profile):
    """``visit(address, width=1280, color_scheme="light", **options of the profile)`` opens a page in a new tab.

    ``script`` runs before the page's own, at each load.
    A request that would leave this machine is refused, and fails the test, as does an error in a script. What pages
    store is gone after the test.
    """
    tabs = []

    def open_page(address, width=1280, color_scheme="light", script="", **options):
        tabs.append(Tab(profile(**options)))
        return tabs[-1].open(address, width, color_scheme, script)

    open_page.tabs = tabs
    yield open_page
    for tab in tabs:
        tab.close()
    for tab in tabs:
        tab.check()


@pytest.fixture(scope="module")
def look(site, profile):
    """``look(docname, width=1280, color_scheme="light")``: a page for tests that look at it and leave it as it is.

    All answers are shown and formulas drawn. The page stays open until another one is wanted.
    """
    shown = {}

    def close():
        for tab in shown.values():
            tab.close()
            tab.check()
        shown.clear()

    def page(docname, width=1280, color_scheme="light"):
        wanted = docname, width, color_scheme
        if wanted not in shown:
            close()
            shown[wanted] = tab = Tab(profile())
            tab.open(f"{site}/{docname}.html", width, color_scheme, "localStorage.setItem('la-answers', 'true')")
            tab.page.evaluate("window.MathJax?.startup?.promise")
        return shown[wanted].page

    yield page
    close()


@pytest.fixture
def show(visit, tmp_path):
    """``show(widget, …)`` opens a plain file that holds these widgets and nothing else."""

    def open_file(*widgets, theme="light", **options):
        file = tmp_path / "page.html"
        file.write_text(PAGE.format(theme=theme, body="\n".join(w.html() for w in widgets)), "utf-8")
        return visit(file.as_uri(), **options)

    return open_file


@pytest.fixture(scope="session")
def breaches():
    """``breaches(page)``: one line for each element that breaks a rule of axe-core."""
    pytest.importorskip("axe_playwright_python", reason="no axe-core: pip install -r requirements.txt")
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

    def found(page):
        page.evaluate(axe + "; 0")
        options = {"runOnly": RULES, "resultTypes": ["violations"]}
        return [
            f"{rule['id']} ({rule['help']}): {node['html'][:200]}"
            for rule in page.evaluate("options => axe.run(document, options)", options)["violations"]
            if rule["id"] not in ACCEPTED
            for node in rule["nodes"]
        ]

    return found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The book, built once for all workers of a run; gives its folder."""
    run = tmp_path_factory.getbasetemp()
    run = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    folder = run / "site" / "html"
    with FileLock(run / "site.lock"):  # the first worker builds, the others wait
        if not folder.exists():
            build = [sys.executable, "-m", "bookbinder", "html", "--out", str(folder)]
            done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
            if done.returncode:
                pytest.fail(f"the book does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return folder


@pytest.fixture(scope="session")
def site(site_folder):
    """The book, served from this machine; gives its address."""
    handler = functools.partial(_Quiet, directory=str(site_folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
