"""The book, built once and served from this machine."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chromium import Tab
from filelock import FileLock

from llm_anatomy.notebook.front_end import PAPER

ROOT = Path(__file__).parents[2]

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>html[data-theme=light] body {{ background: #ffffff; color: #222832 }}
html[data-theme=dark] body {{ background: GROUND; color: #ced6dd }}
body {{ margin: 0 auto; max-width: 740px; padding: 20px }}</style>{body}</html>""".replace("GROUND", PAPER["dark"])


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
        wanted = docname, width, color_scheme, profile()
        if wanted not in shown:
            close()
            shown[wanted] = tab = Tab(wanted[-1])
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
