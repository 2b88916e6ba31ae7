"""What a widget shows: plots made of layers, facts, notes, and rows that stand side by side.

A channel of a layer (``x``, ``y``, ``text`` …) is a number, a list, or the name of a control, of an entry of the
widget's ``data``, or of what ``compute`` returns, perhaps with an index ("query[0]"); a hue or a label is a word, or a
name after "@". In a plot that is repeated, the first axis of a channel counts the plots. A number that is not a number
(NaN) is left out, so that lists may be padded. Words are templates (:func:`~llm_anatomy.notebook.widgets.base.fill`).
"""


def axis(low=0, high=1, name: str = "", *, ticks=None, labels=None, log: bool = False, hue: str | None = None) -> dict:
    """An axis from ``low`` to ``high``, with round ticks or given ones; ``labels`` names the positions 0, 1 … ."""
    return _given(low=low, high=high, name=name, ticks=ticks, labels=labels, log=log, hue=hue)


def plot(
    *layers,
    x=None,
    y=None,
    title="",
    hint="",
    height=None,
    aspect=None,
    widest=None,
    pick=None,
    hover=False,
    repeat=None,
):
    """Layers over one pair of axes.

    Args:
        layers: drawn in this order.
        x, y: the axes; without them there is room for the layers alone, from 0 to 1.
        title, hint: words above the plot.
        height: in pixels; or ``aspect``, the height of the inner frame for a width of 1.
        widest: largest width of the inner frame, in pixels.
        pick: ``{"x": control}``, ``{"y": control}`` or both: controls that follow a pointer on the plot.
        hover: a mouse picks without being pressed.
        repeat: titles of several small plots with the same layers, or the name of a list of them; in their
            templates, too, the first axis counts the plots.
    """
    axes = {"x": x, "y": y, "height": height, "aspect": aspect, "widest": widest}
    rest = {"title": title, "hint": hint, "pick": pick, "hover": hover, "repeat": repeat}
    return {"mark": "plot", "layers": list(layers)} | _given(**axes, **rest)


def line(y, x=None, *, hue=None, dashed=False, width=2.5, faint=False) -> dict:
    """A line through points, one for each row where ``y`` has two axes; ``x`` counts from 0 if it is not given."""
    return _layer("line", y=y, x=x, hue=hue, dashed=dashed, width=width, faint=faint)


def dots(x, y, *, hue=None, size=7, label=None, hollow=False, faint=False, diamond=False) -> dict:
    """Dots, or diamonds, perhaps with labels beside them; ``size`` is the radius in pixels."""
    return _layer("dots", x=x, y=y, hue=hue, size=size, label=label, hollow=hollow, faint=faint, diamond=diamond)


def arrows(x, y, *, x0=0, y0=0, hue=None, width=2.5, label=None, dashed=False, head=True, faint=False) -> dict:
    """Arrows from (x0, y0) to (x, y), or lines without a ``head``; ``width`` may be a channel, in pixels."""
    rest = {"width": width, "label": label, "dashed": dashed, "head": head, "faint": faint}
    return _layer("arrows", x=x, y=y, x0=x0, y0=y0, hue=hue, **rest)


def arcs(x0, x, weights, *, y0=1, y=0, hue="weights", widest=10) -> dict:
    """Curves from (x0, y0) to (x, y), as wide as their weight."""
    return _layer("arcs", x0=x0, x=x, y0=y0, y=y, weights=weights, hue=hue, widest=widest)


def bars(y, x=None, *, base=0, hue=None, across=False, text=None) -> dict:
    """Bars from ``base`` to ``y`` at the positions 0, 1 …, or ``across`` from left to right, perhaps with text.

    The hue "signed" gives positive and negative bars the two colours of signed numbers.
    """
    return _layer("bars", y=y, x=x, base=base, hue=hue, across=across, text=text)


def cells(values, *, reach=1, hue="signed", text=None, frame=None, column=None, scale=False) -> dict:
    """A map of numbers, row 0 at the top: "signed" from −reach to reach, or a hue from 0 to reach; −∞ is hatched.

    ``frame`` is the index of a row that is framed, or several, perhaps only in one ``column``; ``scale`` shows the
    scale below. ``text`` is a channel, or a template for each cell, in which a matrix stands for its own entry. A hue
    that is a number is one of four that tell neighbours apart.
    """
    return _layer("cells", values=values, reach=reach, hue=hue, text=text, frame=frame, column=column, scale=scale)


def area(x, y, *, hue=None, share=0.3, text=None) -> dict:
    """Areas with corners at ``x`` and ``y``, a row for each; ``share`` is that of the hue in the colour.

    ``text``, a list of words, stands in the middles.
    """
    return _layer("area", x=x, y=y, hue=hue, share=share, text=text)


def words(x, y, text, *, hue=None, anchor="middle") -> dict:
    """Text at points: a channel, or a template."""
    return _layer("words", x=x, y=y, text=text, hue=hue, anchor=anchor)


def rule(*, x=None, y=None, hue=None, dashed=True, label=None) -> dict:
    """A line across the frame at ``x`` or at ``y``."""
    return _layer("rule", x=x, y=y, hue=hue, dashed=dashed, label=label)


def band(low, high, *, hue=None) -> dict:
    """A tinted stretch of the x axis."""
    return _layer("band", low=low, high=high, hue=hue)


def handle(control: str) -> dict:
    """A point control to drag, or to move with the arrow keys."""
    return _layer("handle", control=control)


def facts(**values: str) -> dict:
    """Numbers with a few words each: ``facts(**{"largest weight": "{largest:.4f}"})``."""
    return {"mark": "facts", "facts": values}


def note(text: str, *, code: bool = False) -> dict:
    """A paragraph: a template; ``_(…)`` in ``code`` is an index."""
    return {"mark": "note", "text": text} | _given(code=code)


def chips(text: str, *, below: str = "", title="", hint="", hue: str = "", repeat=None) -> dict:
    """Tokens of a text, one after the other, in wrapping lines; neighbours differ in colour.

    Args:
        text: a template for each token, in which a list stands for its own entry: "{text_tokens}", or
            "{text_vocabulary[best]}" for a list of ids that ``compute`` returns. NaN is left out.
        below: another template, for what stands below the token; −1, the id of what has none, is shown as missing.
        title, hint: words above the tokens.
        hue: a third template, for the colour of the token, such as "{hues[best]}".
        repeat: the name of a list of several such texts; the first axis of all lists then counts them.
    """
    return {"mark": "chips", "text": text} | _given(below=below, title=title, hint=hint, hue=hue, repeat=repeat)


def continuations(
    text: str, ids: str, values: str, *, words: str, title: str = "", hint: str = "", hue: str = "weights"
) -> dict:
    """Buttons that append a token to a text, each with a bar. A token whose bytes are no text is disabled.

    Args:
        text: the name of a ``Text`` control whose encoder is an ``Encoder``.
        ids: the channel of the tokens' ids.
        values: the channel of the lengths of the bars, from 0 to 1.
        words: a template for what stands behind a bar, in which a list stands for its own entry.
        title, hint: words above the buttons.
        hue: of the bars.
    """
    needed = {"text": text, "ids": ids, "values": values, "words": words, "hue": hue}
    return {"mark": "continuations"} | needed | _given(title=title, hint=hint)


def row(*marks, shares=None) -> dict:
    """Marks side by side, with these shares of the width; on a phone one below the other."""
    return {"mark": "row", "marks": list(marks)} | _given(shares=shares)


def _layer(kind: str, **channels) -> dict:
    return {"layer": kind} | _given(**channels)


def _given(**values) -> dict:
    """Leave out what is empty: the page takes it as not given."""
    return {name: value for name, value in values.items() if value is not None and value is not False and value != ""}
