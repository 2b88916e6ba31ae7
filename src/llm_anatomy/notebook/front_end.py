"""The front end of all widgets: one ECMAScript module, made of scripts and styles that lie beside this file.

It needs nothing but the standard library, so that pages are bound without PyTorch.
"""

import json
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("widgets/graph.js", "widgets/marks.js", "widgets/text.js", "widgets/runtime.js", "predictions.js")
ENCODES = '"encoder": {'
"""What stands in a page that needs ``text.js``: a text that is encoded."""
STYLES = ("widgets/runtime.css", "predictions.css")
DARK = 'html[data-theme="dark"], html[theme="dark"], body[data-jp-theme-light="false"]'  # the book, Colab, JupyterLab
PAPER = {"light": "#ffffff", "dark": "#15181d"}  # the ground of the book's pages
GROUND = {  # behind the widget, as the book's theme or JupyterLab says, or as it usually is
    shade: f"var(--pst-color-background,var(--jp-layout-color0,{usual}))" for shade, usual in PAPER.items()
}


@cache
def module(*, encodes: bool = True) -> str:
    """Return the module that draws all widgets, or those that encode no text, and starts those of the page."""
    style = palette_css() + "".join(_lean(HERE / name) for name in STYLES)
    scripts = [name for name in SCRIPTS if encodes or name != "widgets/text.js"]
    return f"const STYLE = {json.dumps(style)};\n" + "".join(_lean(HERE / name) for name in scripts)


def script(page: str = ENCODES) -> str:
    """Return the HTML that makes the widgets of a page alive; by default it can draw every widget."""
    return f'\n<script type="module">\n{module(encodes=ENCODES in page)}</script>'


def palette_css() -> str:
    """Return CSS variables ``--la-query`` … for the names of the palette and for the background, light and dark."""
    palette = json.loads((HERE / "palette.json").read_text("utf-8")) | {"ground": GROUND}

    def rules(shade):
        return ";".join([f"color-scheme:{shade}", *(f"--la-{name}:{hue[shade]}" for name, hue in palette.items())])

    return f".la-widget{{{rules('light')}}}\n:is({DARK}) .la-widget{{{rules('dark')}}}\n"


def _lean(path: Path) -> str:
    """Return a script or style without indentation and comments, a style also without blanks."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    text = "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))
    return re.sub(r"\s*([{};,])\s*|(:)\s+", r"\1\2", text) if path.suffix == ".css" else text
