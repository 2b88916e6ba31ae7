"""Base class of the widgets: a widget is stated once, in Python, and one front end draws it everywhere.

With a kernel, Jupyter and Colab show it as an ``anywidget`` with synced traits. A page without a kernel runs the graph
of PyTorch's operators that ``compute`` calls: everything is inline, and nothing is requested.
"""

import hashlib
import html
import itertools
import json
import math
import os
import re
import sys
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property

import traitlets
from torch import Tensor

from llm_anatomy.notebook.front_end import module, script
from llm_anatomy.notebook.widgets.controls import Control, order
from llm_anatomy.notebook.widgets.graph import export
from llm_anatomy.notebook.widgets.text import harmless

try:  # Colab and the book's environment have it; where it is missing, a widget takes the form of the page
    from anywidget import AnyWidget as _Live
except ImportError:
    _Live = traitlets.HasTraits


class Widget(_Live):
    """An interactive figure. Subclasses state its controls, ``compute``, ``marks`` and ``sentence``.

    Controls are class attributes or, where they depend on arguments, given to ``Widget.__init__`` by name.

    Args:
        caption: one sentence that says what to look for.
        data: names, numbers and lists that the marks and the sentence use besides what ``compute`` returns.
        controls: controls by name.

    >>> from llm_anatomy.notebook.widgets import Slider, Widget
    >>> class Twice(Widget):
    ...     number = Slider(3, 0, 10)
    ...     sentence = "Twice {number} is {twice}."
    ...
    ...     def compute(self, number):
    ...         return {"twice": 2 * number}
    >>> twice = Twice()
    >>> twice.number = 4
    >>> twice
    Twice 4 is 8.
    """

    kind = "widget"
    sentence = ""
    """A template of what is shown, for readers who do not see it; :func:`fill` says how it is written."""

    _spec = traitlets.Unicode().tag(sync=True)
    _ipython_display_ = None  # ipywidgets 7 would show the live widget alone

    def __init__(self, *, caption: str = "", data: dict | None = None, **controls: Control):
        for control in controls.values():
            control.order = next(order)  # as they are given, after those of the class
        self.add_traits(**controls)
        traitlets.HasTraits.__init__(self)  # not yet what connects to a front end
        for name, control in self.controls.items():
            if getattr(control, "sets", None):
                self.observe(self._set_others, name)
        self.caption, self.data = caption, data or {}
        if not _static() and "google.colab" not in sys.modules:
            self.sync()

    def compute(self, **controls: Tensor) -> dict[str, Tensor]:
        """Return tensors by name from the controls' values: what the marks and the sentence show.

        It is pure, uses no value to decide a shape, and calls functions of the package.
        """
        return {}

    def marks(self) -> list:
        """Return the marks (:mod:`llm_anatomy.notebook.widgets.marks`) and the names of controls, from top to bottom.

        Controls that are not named come last.
        """
        return []

    def sync(self) -> "Widget":
        """Connect the traits to the front end, and return the widget: in Jupyter from the start, in Colab if you ask.

        Colab needs its custom widget manager for this, which also changes its built-in widgets.
        """
        if _Live is not traitlets.HasTraits and getattr(self, "comm", None) is None:
            self._spec, self._esm = json.dumps(self.spec()), module()
            super().__init__()
        return self

    @property
    def controls(self) -> dict[str, Control]:
        """The controls by name, in the order in which they were stated."""
        own = [trait for trait in self.traits().values() if isinstance(trait, Control)]
        return {control.name: control for control in sorted(own, key=lambda control: control.order)}

    def _set_others(self, change):
        for name, value in self.controls[change["name"]].sets[change["new"]].items():
            setattr(self, name, value)

    def values(self) -> dict:
        """Return the controls' values by name."""
        return {name: getattr(self, name) for name in self.controls}

    def outputs(self) -> dict:
        """Return what encoders and ``compute`` make of the present values, as numbers and lists."""
        fixed, tensors, lists = self._given()
        found = {name: tensor for name, tensor in tensors.items() if name not in self.controls}
        found |= self.compute(**fixed, **tensors)
        return lists | {name: tensor.detach().float().tolist() for name, tensor in found.items()}

    def _given(self) -> tuple[dict, dict[str, Tensor], dict[str, list]]:
        """The present values: those of fixed controls, the tensors that ``compute`` receives, and further lists."""
        fixed, given = {}, {}
        for name, control in self.controls.items():
            value = getattr(self, name)
            (fixed if control.fixed else given).update({name: value} if control.fixed else control.given(value))
        tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        return fixed, tensors, {name: value for name, value in given.items() if name not in tensors}

    @cached_property
    def _graphs(self) -> dict:
        """What becomes of ``compute``, the same whatever the values: tracing takes long, and is done once."""
        fixed = {name: control for name, control in self.controls.items() if control.fixed}
        _, inputs, _ = self._given()
        pool, graphs = [], []
        for options in itertools.product(*(control.options for control in fixed.values())):
            chosen = dict(zip(fixed, options, strict=True))
            graphs.append(export(lambda chosen=chosen, **given: self.compute(**chosen, **given), inputs, pool))
        return {"pool": pool, "graphs": graphs}

    def spec(self) -> dict:
        """Return all that the front end needs, in JSON's types."""
        controls = [control.spec() | {"start": getattr(self, name)} for name, control in self.controls.items()]
        words = {"kind": self.kind, "caption": self.caption, "sentence": self.sentence, "data": self.data}
        return words | {"controls": controls, "marks": self.marks()} | self._graphs

    def __repr__(self) -> str:
        """Say what is shown: the plain text of the output."""
        known = self.data | self.outputs()
        for name, control in self.controls.items():
            value = getattr(self, name)
            if hasattr(control, "index"):
                known[f"{name}#"], value = control.index(value) + 1, control.options[control.index(value)]
            known[name] = harmless(value)
        return fill(self.sentence, known)

    def html(self, alone: bool = True) -> str:
        """Return the widget as one HTML element, with the script if it stands ``alone`` and the page has none."""
        spec = json.dumps(self.spec(), ensure_ascii=False, allow_nan=False).replace("<", r"\u003c")
        key = "la-" + hashlib.sha256(spec.encode()).hexdigest()[:10]
        caption = f'<figcaption class="la-caption">{html.escape(self.caption)}</figcaption>' if self.caption else ""
        return f"""<figure class="la-widget" data-la="{key}">
<p class="la-text">{html.escape(repr(self))}</p>
<noscript>{self.without_script()}</noscript>
{caption}
<script type="application/json">{spec}</script>
</figure>{script() if alone else ""}"""

    def without_script(self) -> str:
        """Return the HTML that follows the text where JavaScript is switched off."""
        return "<p>This figure is interactive where JavaScript is switched on.</p>"

    def _repr_mimebundle_(self, include=None, exclude=None, **_) -> dict:
        plain = {"text/plain": repr(self), "text/html": self.html(alone=not _static())}
        if getattr(self, "comm", None) is None:
            return plain
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return plain | {"application/vnd.jupyter.widget-view+json": view}


def _static() -> bool:
    """Whether notebooks are being made for pages: widgets then connect to nothing, and leave the script to the page."""
    return bool(os.environ.get("LLM_ANATOMY_STATIC"))


def fill(template: str, known: dict) -> str:
    """Fill a template as the page does.

    ``{name}`` is a value, ``{name:.2f}`` a number with so many decimals, ``{name[2]}`` or ``{name[other]}`` an entry of
    a list, ``{name|no|yes}`` the word of that number (the last one for larger numbers), and ``{choice#}`` the number of
    a chosen option, from 1. ``[[…]]`` is repeated for all entries of the lists in it, with ", " or what follows ``||``
    between them; ``{#}`` is then the number of the entry, an entry that is not a number is left out, and in
    ``{name[other]}`` each entry of the list ``other`` is looked up.

    >>> fill("{n} keys: [[{w:.1f} on {token}]].", {"n": 2, "w": [0.25, 1], "token": ["a", "b"]})
    '2 keys: 0.3 on a, 1.0 on b.'
    """

    def repeat(match):
        body, glue = match[1], ", " if match[2] is None else match[2]
        found = re.findall(r"{([\w#]+)(?:\[(\w+)\])?", body)
        names = {index if isinstance(known.get(index), list) else name for name, index in found}
        lists = {name: known[name] for name in names if isinstance(known.get(name), list)}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        rows = [row | {"#": n} for n, row in enumerate(rows, 1) if not any(v != v for v in row.values())]
        return glue.join(fill(body, known | row) for row in rows)

    def value(match):
        name, index, form, words = match.groups()
        found = known[name]
        if index is not None:
            found = found[
                int(index if index.isdecimal() else known[f"{index}#"] - 1 if f"{index}#" in known else known[index])
            ]
        if words:
            options = words[1:].split("|")
            return options[min(max(int(found), 0), len(options) - 1)]
        return written(found, form or "")

    template = re.sub(r"\[\[(.*?)(?:\|\|(.*?))?\]\]", repeat, template)
    while (done := re.sub(r"{([\w#]+)(?:\[(\w+)\])?(?::([^{}|]*))?((?:\|[^{}|]*)*)}", value, template)) != template:
        template = done
    return template


def written(value, form: str = "") -> str:
    """Format a number as the page does: with a true minus sign, and in so many digits if ``form`` is like ".2f"."""
    if isinstance(value, str):
        return value
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    return fixed(value, int(form[1:-1])) if form else f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


def fixed(number: float | int, digits: int) -> str:
    """Format a number as the page does: with so many digits, a true minus sign, and no negative zero."""
    text = str(Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))  # ties as in the browser
    if not float(text):
        text = text.lstrip("-")
    return text.replace("-", "\N{MINUS SIGN}")
