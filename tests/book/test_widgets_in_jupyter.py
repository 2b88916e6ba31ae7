"""A widget in JupyterLab with a kernel: traits set from Python move the picture, and Python reads what readers drag."""

import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from chromium import process

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
CELLS = [
    "from llm_anatomy.notebook import SoftDictionary\n"
    "widget = SoftDictionary([[1, 0], [0, 1]], [[1, 1], [-1, 1]])\nseen = []\n"
    "widget.observe(lambda change: seen.append(change['new']), 'temperature')\nwidget",
    "widget.query = [-0.5, 0.5]",
    "print('query', [round(v, 2) for v in widget.query], 'seen', seen)",
    "import ipywidgets\nipywidgets.VBox([widget], layout=ipywidgets.Layout(width='500px'))",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a port of this machine; gives the address of a notebook."""
    pytest.importorskip("jupyterlab", reason="no JupyterLab: pip install -r requirements.txt")
    pytest.importorskip("anywidget", reason="no anywidget: pip install -r requirements.txt")
    home = tmp_path_factory.mktemp("lab")
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "widget.ipynb")
    folders = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {k: v for k, v in os.environ.items() if k != "LLM_ANATOMY_STATIC"} | folders
    environment |= {"JUPYTER_NO_CONFIG": "1", "PYTHONPATH": str(ROOT / "src")}  # without other server extensions
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    command += ["--IdentityProvider.token=secret", f"--ServerApp.root_dir={home}", "--LabApp.news_url=None"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    log = home / "lab.log"
    end, port = time.monotonic() + 120, None
    with log.open("w") as out, process(command, env=environment, cwd=home, stderr=out, stdout=out) as server:
        while port is None:
            told = log.read_text()
            assert server.poll() is None and time.monotonic() < end, f"JupyterLab did not start: {told[-2000:]}"
            port = next(iter(re.findall(r"http://127\.0\.0\.1:(\d+)/lab", told)), None)
            time.sleep(0.2)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status?token=secret", timeout=60)
                break
            except urllib.error.URLError:
                assert time.monotonic() < end, "JupyterLab did not answer within two minutes"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/lab/tree/widget.ipynb?token=secret"


def test_traits_move_the_picture_and_the_reader_moves_traits(lab, visit):
    page = visit(lab)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    cells.nth(3).wait_for()
    page.get_by_text("| Idle").wait_for()  # the kernel

    def run(n):
        prompt = cells.nth(n).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        cells.nth(n).locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        has_run = "([prompt, was]) => /\\[\\d+\\]/.test(prompt.textContent) && prompt.textContent !== was"
        page.wait_for_function(has_run, arg=[prompt.element_handle(), before])

    run(0)
    figure = cells.nth(0).locator(".la-widget.la-ready")
    figure.wait_for()
    page.wait_for_function("document.querySelector('.la-text').textContent.startsWith('Query (0.80, 0.20)')")
    run(1)
    page.wait_for_function("document.querySelector('.la-text').textContent.startsWith('Query (−0.50, 0.50)')")
    slider = figure.get_by_role("slider", name="query x", exact=True)
    slider.focus()
    page.keyboard.press("End")
    figure.get_by_role("slider", name="temperature", exact=True).focus()
    page.keyboard.press("Home")
    for _ in range(50):  # what the reader moves may reach the kernel after a cell that is run later
        run(2)
        if "query [1.5, 0.5] seen [0.0]" in cells.nth(2).inner_text():
            break
    assert "query [1.5, 0.5] seen [0.0]" in cells.nth(2).inner_text()
    run(3)
    cells.nth(3).locator(".la-widget.la-ready").wait_for()
    assert json.loads(cells.nth(3).locator(".la-widget").evaluate("node => JSON.stringify(node.la.get('query'))")) == [
        1.5,
        0.5,
    ]
