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

ROOT = Path(__file__).parents[2]
HOW_TO_GET_IT = (
    "no Chromium found: install it (on Debian and Ubuntu: apt-get install chromium) or name it in CHROMIUM=/path/to/it"
)

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ACCEPTED: dict[str, str] = {}  # rule: why the theme's breach of it is borne with; none at present

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>html[data-theme=light] body {{ background: #ffffff; color: #222832 }}
html[data-theme=dark] body {{ background: #14181e; color: #ced6dd }}
body {{ margin: 0 auto; max-width: 740px; padding: 20px }}</style>{body}</html>"""


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, or a skip that says how to get it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(HOW_TO_GET_IT)
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -r requirements.txt")
    quiet = ["disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync", "no-first-run"]
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage", *(f"--{flag}" for flag in quiet)]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """``visit(address, width=1280, **options of the context)`` opens a page in a fresh profile.

    Every request that would leave this machine is refused, and fails the test, as does an error in a script, save
    one of the theme: it declares THEBE_JS_URL twice, to no effect.
    """
    contexts, foreign, errors = [], [], []

    def guard(route):
        address = urlsplit(route.request.url)
        if address.scheme in ("data", "blob", "file") or address.hostname in ("127.0.0.1", "localhost"):
            return route.continue_()
        foreign.append(route.request.url)
        return route.abort()

    def open_page(address, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        contexts.append(context)
        context.route("**/*", guard)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)) if "THEBE_JS_URL" not in str(error) else None)
        page.set_default_timeout(60_000)
        page.goto(address)
        return page

    open_page.foreign = foreign
    yield open_page
    for context in contexts:
        context.close()
    assert not foreign, f"the page asked other hosts: {foreign}"
    assert not errors, f"a script failed: {errors}"


@pytest.fixture
def answers_shown(site):
    """What the browser of a reader stores who sees the answers of all predictions at once; an option of ``visit``."""
    return {"cookies": [], "origins": [{"origin": site, "localStorage": [{"name": "la-answers", "value": "true"}]}]}


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
    """The book, built once; gives its folder."""
    folder = tmp_path_factory.mktemp("site") / "html"
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
