"""Base class of the page widgets: one object with two renderings.

On a page, a widget is data, a small script and a drawing that the script makes, all inline: it needs no kernel and
makes no request. With a kernel it consists of ipywidgets controls and a picture that Python draws.

The widget in ``thing.py`` has its script in ``thing.js`` and its additions to ``runtime.css`` in ``thing.css``, beside
it. The script defines ``draw(data)`` and finds the toolbox of ``runtime.js`` under ``la``.
"""

import hashlib
import html
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files

from llm_anatomy.notebook.figures import PALETTE

TOOLS = files(__package__)
DARK = 'html[data-theme="dark"], html[theme="dark"], body[data-jp-theme-light="false"]'  # the book, Colab, JupyterLab
GROUND = {  # behind the widget, as the book's theme or JupyterLab says, or as it usually is
    shade: f"var(--pst-color-background,var(--jp-layout-color0,{usual}))"
    for shade, usual in {"light": "#ffffff", "dark": "#14181e"}.items()
}


class PageWidget:
    """An interactive figure. Subclasses define ``data``, ``text`` and ``live``.

    Args:
        caption: one sentence that says what to look for.
    """

    tools: tuple[str, ...] = ()
    """Scripts needed besides ``runtime.js``, by their file names, such as "plane"."""

    def __init__(self, caption: str = ""):
        self.caption = caption
        self._controls = None

    def data(self) -> dict:
        """Return the data for the page's script: plain numbers, strings, lists and dicts."""
        raise NotImplementedError

    def text(self) -> str:
        """Describe the initial state in words and rounded numbers: the plain text of the output."""
        raise NotImplementedError

    def live(self):
        """The ipywidgets control shown where there is a kernel; :meth:`panel` builds one."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()

    def html(self) -> str:
        """Return the whole widget as one HTML element, for any page."""
        package, _, name = type(self).__module__.rpartition(".")
        parts = [TOOLS / "runtime", *(TOOLS / tool for tool in self.tools), files(package) / name]
        script = "".join(_lean(part.with_name(f"{part.name}.js")) for part in parts)
        style = "".join(_lean(part.with_name(f"{part.name}.css")) for part in parts)
        colours = palette_css(re.findall(r"var\(--la-(\w+)", style))
        data = json.dumps(self.data(), ensure_ascii=False, allow_nan=False).replace("</", r"<\/")
        key = "la-" + hashlib.sha256(f"{name} {data} {self.caption}".encode()).hexdigest()[:10]
        caption = f'<figcaption class="la-caption">{html.escape(self.caption)}</figcaption>' if self.caption else ""
        return f"""<figure class="la-widget" data-la="{key}">
<style>
{colours}{style}</style>
<p class="la-text">{html.escape(self.text())}</p>
<noscript>{self.without_script()}</noscript>
{caption}
<script type="application/json">{data}</script>
<script>(() => {{
{script}la.start("{key}", draw);
}})()</script>
</figure>"""

    def without_script(self) -> str:
        """Return the HTML that follows the text where JavaScript is switched off."""
        return "<p>This figure is interactive where JavaScript is switched on.</p>"

    def panel(self, controls: Mapping, picture: Callable[..., None]):
        """Put controls above a picture that follows them.

        Args:
            controls: ipywidgets controls by name.
            picture: called with the argument ``show`` for its ``figure``, and the value of each control by its name.
                The figure's alternative text is shown below it; the message of a ValueError replaces this text.
        """
        import ipywidgets

        image, description = ipywidgets.Image(format="png"), ipywidgets.HTML()
        image.layout.max_width = "100%"

        def show(png, text, _):
            image.value, description.value = png, html.escape(text)

        def redraw(_=None):
            try:
                picture(show, **{name: control.value for name, control in controls.items()})
            except ValueError as error:
                description.value = html.escape(str(error))

        for control in controls.values():
            control.observe(redraw, "value")
        redraw()
        children = [*controls.values(), image, description]
        if self.caption:
            children.append(ipywidgets.HTML(f"<i>{html.escape(self.caption)}</i>"))
        return ipywidgets.VBox(children)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        plain = {"text/plain": self.text()}
        if os.environ.get("LLM_ANATOMY_STATIC"):
            return plain | {"text/html": self.html()}
        if self._controls is None:  # one control, however often the widget is displayed
            self._controls = self.live()
        view = {"version_major": 2, "version_minor": 0, "model_id": self._controls.model_id}
        plain["application/vnd.jupyter.widget-view+json"] = view
        # Colab would show the page's form and not the controls, which alone can call Python.
        return plain if "google.colab" in sys.modules else plain | {"text/html": self.html()}


def palette_css(names) -> str:
    """Return CSS variables ``--la-query`` … for these names of the palette and for the background, light and dark."""

    def rules(shade):
        used = {name: shades[shade] for name, shades in (PALETTE | {"ground": GROUND}).items() if name in names}
        return ";".join([f"color-scheme:{shade}", *(f"--la-{name}:{colour}" for name, colour in used.items())])

    return f".la-widget{{{rules('light')}}}\n:is({DARK}) .la-widget{{{rules('dark')}}}\n"


def fixed(number: float | int, digits: int) -> str:
    """Format a number as the page does: with so many digits, a true minus sign, and no negative zero."""
    written = str(Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))  # ties as in the browser
    if not float(written):
        written = written.lstrip("-")
    return written.replace("-", "\N{MINUS SIGN}")


def finite(name: str, number) -> float:
    """Return the number as a float; raise a ValueError if it is not finite."""
    try:
        as_float = float(number)
    except (TypeError, ValueError):
        as_float = math.nan
    if not math.isfinite(as_float):
        raise ValueError(f"{name}={number!r}; it must be a finite number")
    return as_float


def whole(name: str, number, low: int, high: int, *, even: bool = False) -> int:
    """Return the number if it is an integer (even, if required) from ``low`` to ``high``, else raise a ValueError."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or not low <= number <= high or (even and number % 2):
        kind = "an even" if even else "a whole"
        raise ValueError(f"{name}={number!r}; it must be {kind} number from {low} to {high}")
    return number


def above_one(name: str, number) -> float:
    """Return the number as a float above 1: a base of RoPE's frequencies."""
    as_float = finite(name, number)
    if as_float <= 1:
        raise ValueError(f"{name}={number!r}; it must be above 1, so that the planes differ in frequency")
    return as_float


def list_of_strings(name: str, strings) -> list[str]:
    """Return the strings as a list; raise a ValueError if there are none or one is empty."""
    as_list = list(strings) if isinstance(strings, list | tuple) else []
    if not as_list or not all(isinstance(string, str) and string.strip() for string in as_list):
        raise ValueError(f"{name}={strings!r}; it must be a non-empty list of non-empty strings")
    return as_list


def parsed(name: str, text: str, example: str):
    """Parse what a reader typed as JSON; raise a ValueError that shows an example if it is not."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"{name}={text!r}; it must be written like {example}") from None


def first_rise(values) -> int | None:
    """Return the first index whose value exceeds the one before by more than rounding, or None."""
    return next((i for i in range(1, len(values)) if values[i] > values[i - 1] + 1e-6), None)


def _lean(path) -> str:
    """Return a script or style without indentation and comments (a style also without blanks), or "" if missing."""
    if not path.is_file():
        return ""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    text = "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))
    return re.sub(r"\s*([{};,])\s*|(:)\s+", r"\1\2", text) if path.name.endswith(".css") else text
