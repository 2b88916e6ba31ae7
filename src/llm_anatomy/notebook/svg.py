"""Matplotlib's SVG made light, in colours of the page that shows it.

A colour of the palette becomes the page's variable, ``var(--la-query,#2554cb)``, so that the dark page shows its own; a
grey becomes a mix of ink and ground, and a step of a colour map a mix of the map's end and ground. Where there are no
such variables, the light colours stand. Text stays text, in the page's face.
"""

import base64
import hashlib
import io
import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from llm_anatomy.notebook.palette import MAPS, ON_DEEP, ON_MIDDLE, ON_PALE, WHITE, colours, to_oklab

MOST_BYTES = 40_000
CSS_PIXELS_PER_INCH = 96
GROUND, INK = f"var(--la-ground,{WHITE})", f"var(--la-residual,{colours['residual']})"
FONT = "var(--pst-font-family-base,'DejaVu Sans',Verdana,sans-serif)"
FIXED = {
    WHITE: GROUND,
    ON_PALE: "var(--la-on-pale,#000)",
    ON_MIDDLE: "#fff",
    ON_DEEP: "var(--la-on-deep,#fff)",
} | {colour: f"var(--la-{name},{colour})" for name, colour in colours.items()}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NUMERIC = ("d", "x", "y", "width", "height", "points", "transform")
_INK_LIGHTNESS = to_oklab(np.array(to_rgb(colours["residual"])))[0]


def drawing(canvas: Figure, alt: str) -> str:
    """Return a figure as an SVG element.

    Args:
        canvas: the figure.
        alt: what it shows, in words.

    Raises:
        ValueError: for a colour that is neither grey nor of the palette or its maps, and for more than 40 kB.
    """
    for ax in canvas.axes:
        for image in ax.images:
            image.set_interpolation("none")  # one pixel for each number
    written = io.StringIO()
    canvas.savefig(written, format="svg", metadata={"Date": None})
    whole = ElementTree.fromstring(written.getvalue())
    width, height = (round(inches * CSS_PIXELS_PER_INCH) for inches in canvas.get_size_inches())
    theme, svg = _Theme(), ElementTree.Element("svg", {"xmlns": _SVG[1:-1], "viewBox": whole.attrib["viewBox"]})
    for child in whole:
        _add(svg, child, theme)
    svg.attrib |= {"width": str(width), "height": str(height), "class": "la-figure", "role": "img", "aria-label": alt}
    fill = FIXED[ON_PALE]  # matplotlib leaves black unsaid
    style = f"max-width:100%;height:auto;font-family:{FONT};fill:{fill};stroke-linejoin:round;{theme.variables()}"
    svg.set("style", style.rstrip(";"))
    text = _with_own_ids(ElementTree.tostring(svg, encoding="unicode"))
    if len(text) > MOST_BYTES:
        raise ValueError(f"the drawing has {len(text):,} bytes; at most {MOST_BYTES:,} are allowed: draw fewer points")
    return text


class _Theme:
    """The colours of one drawing: each is written once, as a variable of the drawing, and named where it is used."""

    def __init__(self):
        self.used: dict[str, str] = {}

    def __call__(self, colour: re.Match) -> str:
        self.used.setdefault(colour[0], f"--c{len(self.used)}")
        return f"var({self.used[colour[0]]})"

    def variables(self) -> str:
        return ";".join(f"{name}:{_themed(colour)}" for colour, name in self.used.items())


def _themed(colour: str) -> str:
    if colour in FIXED:
        return FIXED[colour]
    rgb = np.array(to_rgb(colour))
    lightness, *chroma = to_oklab(rgb)
    if np.hypot(*chroma) < 0.02:
        return f"color-mix(in oklab,{INK} {100 * min(1, (1 - lightness) / (1 - _INK_LIGHTNESS)):.3g}%,{GROUND})"
    for steps in MAPS:
        if (step := steps.find(rgb)) is not None:
            name, share = steps.share(step)
            return f"color-mix(in oklab,{FIXED[colours[name]]} {100 * share:.3g}%,{GROUND})"
    raise ValueError(f"the colour {colour} is neither grey nor of the palette: take one of `colours`")


def _add(parent: ElementTree.Element, node: ElementTree.Element, theme: _Theme) -> None:
    """Add what is drawn, without what only matplotlib needs."""
    kind = node.tag.removeprefix(_SVG)
    if kind in ("metadata", "style"):  # its style would be the whole page's
        return
    attributes = {name.removeprefix(_XLINK): _short(name, value) for name, value in node.attrib.items()}
    if kind == "image":
        return _add_pictures(parent, attributes)
    if kind == "g":
        attributes.pop("id", None)
    if style := attributes.pop("style", None):
        declared = dict(re.findall(r"([\w-]+): *([^;]+)", _COLOUR.sub(theme, style)))
        declared.pop("font-family", None)
        if font := declared.pop("font", None):  # weight, size and face in one
            declared |= {"font-size": re.findall(r"[\d.]+px", font)[0]} | (
                {"font-weight": "600"} if "bold" in font or "700" in font else {}
            )
        attributes["style"] = ";".join(f"{name}:{value}" for name, value in declared.items())
    added = parent if kind == "g" and not attributes else ElementTree.SubElement(parent, kind, attributes)
    added.text = node.text if kind in ("text", "tspan") else None
    for child in node:
        _add(added, child, theme)
    if kind == "defs" and not len(added):
        parent.remove(added)


def _short(name: str, value: str) -> str:
    """Numbers to a hundredth of a point, or as many digits of a factor as a hundred cells of a map need."""
    if name not in _NUMERIC:
        return value
    digits = 4 if name == "transform" else 2
    value = re.sub(
        r"-?\d+\.\d+(?:e-?\d+)?",
        lambda n: f"{round(float(n[0]), digits) + 0:.{digits}f}".rstrip("0").rstrip("."),
        value,
    )
    return re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(value.split())) if name == "d" else value


def _add_pictures(parent: ElementTree.Element, attributes: dict[str, str]) -> None:
    """Add a picture for the light page and one for the dark, of which one shows."""
    png = base64.b64decode(attributes.pop("href").partition("base64,")[2])
    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    light, which = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    which = which.reshape(pixels.shape[:2]).clip(max=255).astype("uint8")  # a map has one colour more than this picture
    attributes = {name: attributes[name] for name in ("x", "y", "width", "height", "transform") if name in attributes}
    for shade, usual, palette in (("light", "inline", light), ("dark", "none", np.stack([*map(_dark, light)]))):
        kept, picture = io.BytesIO(), Image.fromarray(which)
        picture.putpalette(palette[:256].astype("uint8").tobytes())
        picture.save(kept, "PNG", optimize=True)
        href = "data:image/png;base64," + base64.b64encode(kept.getvalue()).decode()
        style = f"display:var(--la-in-{shade},{usual});image-rendering:pixelated"
        ElementTree.SubElement(parent, "image", attributes | {"href": href, "style": style})


def _dark(rgb: np.ndarray) -> np.ndarray:
    for steps in MAPS:
        if (step := steps.find(rgb / 255)) is not None:
            return (255 * steps.dark[step]).round()
    raise ValueError("a picture has colours of its own: draw it with weights_map or signed_map")


def _with_own_ids(svg: str) -> str:
    """Give definitions names that no other drawing has: one that is folded away would draw nothing for it."""
    own = hashlib.sha256(svg.encode()).hexdigest()[:6]
    names = {name: f"f{own}{number}" for number, name in enumerate(re.findall(r' id="([^"]+)"', svg))}
    return re.sub(r'( id="|url\(#|href="#)([\w.-]+)', lambda found: found[1] + names[found[2]], svg)
