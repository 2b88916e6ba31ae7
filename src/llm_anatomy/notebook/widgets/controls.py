"""What a reader can set in a widget. Controls are traits: ``widget.query = [0.3, 0.9]`` moves one, and is checked."""

import itertools
import math
from collections.abc import Mapping

import torch
import traitlets
from torch import Tensor

from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.text import Encoder, Encoders, Merges, well_formed

order = itertools.count()


class Control(traitlets.TraitType):
    """Base class of the controls: a value with a label, a colour of the palette, and what the page needs to draw it."""

    fixed = False

    def __init__(self, start, *, label: str = "", hue: str | None = None):
        super().__init__(start)
        self.label, self.hue, self.order = label, hue, next(order)
        self.tag(sync=True)

    def refuse(self, value, allowed: str):
        """Raise a TraitError that names the control, the value and what is allowed."""
        raise traitlets.TraitError(f"{self.name}={value!r}; it must be {allowed}")

    def tensor(self, value) -> Tensor:
        """Return the value as ``compute`` receives it."""
        raise NotImplementedError

    def given(self, value) -> dict:
        """Return what ``compute`` receives, by name; lists among it are for the marks alone."""
        return {self.name: self.tensor(value)}

    def spec(self) -> dict:
        """Return what the page needs to know."""
        known = {
            "kind": type(self).__name__.lower(),
            "name": self.name,
            "label": self.label or self.name,
            "hue": self.hue,
        }
        return {key: value for key, value in known.items() if value is not None}


class Slider(Control):
    """A number from ``low`` to ``high`` in steps, handed to ``compute`` as an int64 or float32 scalar.

    Args:
        start: the initial value.
        low, high: the ends; the name of another control stands for its value.
        step: the distance of two values; integers throughout make an integer control.
        values: the values one by one, instead of ends and step.
        curve: above 1, the steps get finer towards the lower end: the value is a power of the slider's position.
        ends: words below the ends of the slider.
        digits: number of decimals shown.
        label, hue: the name that is shown, and a colour of the palette.
    """

    def __init__(self, start, low=None, high=None, *, step=1, values=None, curve=1, ends=(), digits=None, **kwargs):
        super().__init__(start, **kwargs)
        self.low, self.high = (values[0], values[-1]) if values else (low, high)
        self.values, self.step, self.curve, self.ends = values and list(values), step, curve, list(ends)
        numbers = [number for number in (start, self.low, self.high, step) if not isinstance(number, str)]
        self.whole = all(isinstance(number, int) for number in [*numbers, *(values or [])])
        self.digits = digits if digits is not None else 0 if self.whole else 2

    def ends_of(self, widget) -> tuple[float | int, float | int]:
        """Return the lowest and the highest value at present."""
        return tuple(getattr(widget, end) if isinstance(end, str) else end for end in (self.low, self.high))

    def validate(self, obj, value):
        low, high = self.ends_of(obj)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or (self.whole and value != int(value)) or not low <= value <= high:
            self.refuse(value, f"{'a whole' if self.whole else 'a'} number from {low:g} to {high:g}")
        if self.values and value not in self.values:
            self.refuse(value, f"one of {', '.join(f'{v:g}' for v in self.values)}")
        return int(value) if self.whole else float(value)

    def tensor(self, value) -> Tensor:
        return torch.tensor(value, dtype=torch.int64 if self.whole else torch.float32)

    def spec(self) -> dict:
        names = (
            "low",
            "high",
            "step",
            "digits",
            "whole",
            *(n for n in ("values", "curve", "ends") if getattr(self, n)),
        )
        return super().spec() | {name: getattr(self, name) for name in names}


class Choice(Control):
    """One of several options, handed to ``compute`` as its index (an int64 scalar).

    Args:
        options: different strings or numbers; equal tokens are told apart by their index.
        start: the initial option, or its index where ``by_index``.
        fixed: hand the option itself to ``compute``, and export a graph for each: for options that change shapes.
        by_index: the value is the index, for options that may be equal, such as the tokens of a sentence.
        hover: a mouse that moves over an option picks it.
        spread: the options share the whole width, so that a plot may continue them.
        sets: the values of other controls by option; to pick an option sets them, and they can then be moved on.
        label, hue: the name that is shown, and a colour of the palette.
    """

    def __init__(
        self,
        options,
        start=None,
        *,
        fixed: bool = False,
        by_index=False,
        hover=False,
        spread=False,
        sets: Mapping | None = None,
        **kwargs,
    ):
        self.options, self.fixed, self.by_index, self.hover, self.spread = list(options), fixed, by_index, hover, spread
        self.sets = {option: dict(sets[option]) for option in self.options} if sets else {}
        super().__init__((0 if by_index else self.options[0]) if start is None else start, **kwargs)

    def validate(self, obj, value):
        if self.by_index and not (type(value) is int and 0 <= value < len(self.options)):
            self.refuse(value, f"an index from 0 to {len(self.options) - 1}")
        if not self.by_index and value not in self.options:
            self.refuse(value, f"one of {', '.join(map(str, self.options))}")
        return value

    def index(self, value) -> int:
        return value if self.by_index else self.options.index(value)

    def tensor(self, value) -> Tensor:
        return torch.tensor(self.index(value))

    def spec(self) -> dict:
        names = [name for name in ("fixed", "by_index", "hover", "spread") if getattr(self, name)]
        sets = {"sets": list(self.sets.values())} if self.sets else {}
        return super().spec() | {"options": self.options} | {name: True for name in names} | sets


class Tick(Control):
    """Yes or no, handed to ``compute`` as a Boolean scalar.

    Args:
        start: the initial value.
        fixed: hand True or False itself to ``compute``, and export a graph for each.
        label: the words beside the box.
    """

    options = [False, True]

    def __init__(self, start: bool = False, *, fixed: bool = False, **kwargs):
        super().__init__(start, **kwargs)
        self.fixed = fixed

    def validate(self, obj, value):
        return value if isinstance(value, bool) else self.refuse(value, "True or False")

    def index(self, value) -> int:
        return int(value)

    def tensor(self, value) -> Tensor:
        return torch.tensor(value)

    def spec(self) -> dict:
        return super().spec() | {"fixed": True} if self.fixed else super().spec()


class Point(Control):
    """A point of the plane, ``[x, y]``, handed to ``compute`` as a float32 tensor of shape (2,).

    Args:
        start: the initial point.
        reach: the largest size of a coordinate.
        step: the distance of two values of a coordinate.
        label, hue: the name that is shown, and a colour of the palette.
    """

    def __init__(self, start, reach: float | int, *, step: float | int = 0.01, **kwargs):
        super().__init__(list(start), **kwargs)
        self.reach, self.step = reach, step

    def validate(self, obj, value):
        point = list(value) if isinstance(value, (list, tuple, Tensor)) else []
        if len(point) != 2 or not all(abs(float(number)) <= self.reach for number in point):
            self.refuse(value, f"two numbers from {-self.reach:g} to {self.reach:g}")
        return [float(number) for number in point]

    def tensor(self, value) -> Tensor:
        return torch.tensor(value, dtype=torch.float32)

    def spec(self) -> dict:
        return super().spec() | {
            "reach": self.reach,
            "step": self.step,
            "digits": max(0, -math.floor(math.log10(self.step))),
        }


class Text(Control):
    """A text that the reader types, perhaps of several lines. A page cuts what is too long, and says so.

    ``compute`` does not get the text itself but what ``encoder`` makes of it: for a control with the name ``text``, the
    tensors of :class:`~llm_anatomy.notebook.widgets.text.Encoder` are ``text_ids`` and ``text_n``, and its lists
    ``text_tokens`` and ``text_vocabulary`` stand beside what ``compute`` returns.

    Args:
        start: the initial text.
        longest: the largest number of characters.
        encoder: an ``Encoder``, ``Encoders`` or ``Merges`` (:mod:`llm_anatomy.notebook.widgets.text`).
        label, hue: the name that is shown, and a colour of the palette.
    """

    def __init__(self, start: str, *, longest: int, encoder: Encoder | Encoders | Merges | None = None, **kwargs):
        super().__init__(start, **kwargs)
        self.longest, self.encoder = whole("longest", longest, 1, 4096), encoder

    def validate(self, obj, value):
        text = well_formed(value) if isinstance(value, str) else None
        if text is None or len(text) > self.longest:
            self.refuse(value, f"a text of at most {self.longest} characters")
        return text

    def given(self, value) -> dict:
        return {f"{self.name}_{name}": found for name, found in (self.encoder(value) if self.encoder else {}).items()}

    def spec(self) -> dict:
        return super().spec() | {"longest": self.longest} | ({"encoder": self.encoder.spec()} if self.encoder else {})
