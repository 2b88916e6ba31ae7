"""The book, built once and served from this machine."""

import functools
import http.server
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chromium import Tab

from llm_anatomy.notebook.front_end import PAPER

ROOT = Path(__file__).parents[2]
BUILD = Path(__file__).with_name("build_for_tests.py")
BUILDING = pytest.StashKey()
PATIENCE = 600.0  # for the build, in seconds

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>html[data-theme=light] body {{ background: #ffffff; color: #222832 }}
html[data-theme=dark] body {{ background: GROUND; color: #ced6dd }}
body {{ margin: 0 auto; max-width: 740px; padding: 20px }}</style>{body}</html>""".replace("GROUND", PAPER["dark"])


@pytest.fixture(scope="module")
def look(site, profile):
    """``look(docname, width=1280, color_scheme="light", formulas=True)``: a page that tests leave as it is.

    All answers are shown and formulas drawn; without formulas, a page comes in half the time. It stays open until
    another one is wanted, and is only turned if the next test wants it in another width or colour.
    """
    shown = {}

    def close():
        for tab in shown.values():
            tab.close()
            tab.check()
        shown.clear()

    def page(docname, width=1280, color_scheme="light", formulas=True):
        wanted = docname, formulas, profile()
        if wanted not in shown:
            close()
            shown[wanted] = tab = Tab(wanted[-1])
            answers = "localStorage.setItem('la-answers', 'true')"
            tab.open(f"{site}/{docname}.html", width, color_scheme, answers, formulas)
            tab.page.evaluate("window.MathJax?.startup?.promise")
        page = shown[wanted].page
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=color_scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=color_scheme)
        return page

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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def uses_the_site(item):
    return "site_folder" in getattr(item, "fixturenames", ())


def pytest_collection_finish(session):
    """Start to build the book, if a test needs it, while other tests run."""
    if session.config.option.collectonly or not any(map(uses_the_site, session.items)):
        return
    run = session.config._tmp_path_factory.getbasetemp()
    run = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    folder = run / "site" / "html"
    command = [sys.executable, BUILD, folder]
    started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)
    session.config.stash[BUILDING] = started, folder


def pytest_sessionfinish(session):
    started, _ = session.config.stash.get(BUILDING, (None, None))
    if started and started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@pytest.fixture(scope="session")
def site_folder(pytestconfig):
    """The book, built once for all workers of a run; gives its folder."""
    started, folder = pytestconfig.stash[BUILDING]
    try:
        fault = "does not build" if started.wait(PATIENCE) else ""
    except subprocess.TimeoutExpired:
        fault = f"is not built after {PATIENCE:.0f} seconds"
    if fault:
        told = "".join(path.read_text("utf-8") for path in folder.parent.glob("*.txt"))
        pytest.fail(f"the book {fault}:\n{told[-4000:]}")
    return folder


@pytest.fixture(scope="session")
def site(site_folder):
    """The book, served from this machine; gives its address."""
    handler = functools.partial(_Quiet, directory=str(site_folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
