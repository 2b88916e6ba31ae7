"""The palette, the plotting helper, and what a notebook shows of the package."""

import base64
import inspect
import io
import itertools
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from nbformat.v4 import new_code_cell, new_output

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.positions.absolute import Learned
from llm_anatomy.layers.positions.base import offsets
from llm_anatomy.layers.positions.rotary import Rotary, YaRNScaling
from llm_anatomy.notebook import attention_map, colours, figure, figures, glue, palette, signed_map, source, weights_map
from llm_anatomy.notebook.palette import PALETTE
from llm_anatomy.registry import PARTS

NOTIONS = ["query", "key", "value", "weights", "position", "normalization", "feedforward", "residual"]
SCHEMES = ["none", "sinusoidal", "learned", "scalar_bias", "t5", "alibi"]
SCHEMES += ["shaw", "transformer_xl", "tupe", "deberta", "rope"]
TOGETHER = [name for name in SCHEMES if name not in ("scalar_bias", "tupe", "deberta")]  # in figures
GROUND = {"light": "#ffffff", "dark": palette.DARK_GROUND}
# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB.
DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2: from 1 to 21."""
    dark, light = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture
def shown(monkeypatch):
    """What was displayed: a list of (data, metadata)."""
    outputs = []
    monkeypatch.setattr(figures, "display", lambda data, raw, metadata=None: outputs.append((data, metadata or {})))
    return outputs


def test_palette_names_every_notion():
    assert list(PALETTE) == [*NOTIONS, "negative", "positive", *SCHEMES]
    assert set(PARTS["position"]) - {"deberta_v2", "falcon_alibi"} <= set(SCHEMES)
    assert colours["key"] == PALETTE["key"]["light"]


@pytest.mark.parametrize("shade", GROUND)
@pytest.mark.parametrize("name", PALETTE)
def test_palette_can_be_read_as_text(name, shade):
    assert contrast(PALETTE[name][shade], GROUND[shade]) >= 4.5


@pytest.mark.parametrize("shade", GROUND)
@pytest.mark.parametrize("sight, least", [(np.eye(3), 0.11), (DEUTERANOPIA, 0.08), (PROTANOPIA, 0.07)])
def test_palette_can_be_told_apart(shade, sight, least):
    def seen(name):
        rgb = (sight @ linear(PALETTE[name][shade])).clip(0, 1)
        return palette._TO_LAB @ np.cbrt(palette._TO_CONES @ rgb)

    for family, share in ((NOTIONS, 1), (TOGETHER, 1), (SCHEMES, 0.8)):
        apart = {pair: np.linalg.norm(seen(pair[0]) - seen(pair[1])) for pair in itertools.combinations(family, 2)}
        assert min(apart.values()) > share * least, min(apart, key=apart.get)
    assert np.linalg.norm(seen("negative") - seen("positive")) > least


@pytest.mark.parametrize("half", [weights_map, signed_map, signed_map.reversed()])
def test_maps_are_white_at_zero_and_even(half):
    steps = np.linspace(0 if half is weights_map else 0.5, 1, 17)
    lab = palette.to_oklab(half(steps)[:, :3])
    assert lab[0, 0] == pytest.approx(1, abs=0.005)
    stride = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    assert (np.diff(lab[:, 0]) < 0).all()
    assert stride.max() / stride.min() < 1.01


def plot(**changes):
    said = {"title": "Where does it end?", "alt": "A line from (0, 1)\nto (2, 3)."} | changes
    with figure(**said) as ax:
        ax.plot([0, 2], [1, 3])
        ax.set(xlabel="time / s", ylabel="height / m")


def svg_of(data):
    """The drawing in an output, as text and parsed."""
    text = base64.b64decode(re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', data["text/html"])[1]).decode()
    return text, ElementTree.fromstring(text)


def test_figure_displays_one_drawing_with_its_words(shown):
    plot(width=4, height=3, alt='A "line" from (0, 1)\nto (2, 3).')
    [(data, _)] = shown
    assert list(data) == ["text/html", "text/plain"]
    assert data["text/plain"] == 'A "line" from (0, 1) to (2, 3).'
    image = data["text/html"]
    assert 'alt="A &quot;line&quot; from (0, 1) to (2, 3)." width="384" style="max-width:100%;height:auto">' in image
    _, svg = svg_of(data)
    assert (svg.get("width"), svg.get("height"), svg.get("role")) == ("384", "288", "img")
    assert svg.get("aria-label") == data["text/plain"]
    words = "".join(svg.itertext())
    assert "Where does it end?" in words and "height / m" in words  # text, not outlines
    assert not plt.get_fignums()


def test_a_drawing_names_the_colours_of_the_page_and_falls_back_on_the_light_ones(shown):
    with figure("Which colours?", alt="Three lines.") as ax:
        for level, colour in enumerate((colours["key"], "0.5", weights_map(0.25))):
            ax.plot([0, 1], [level, level], color=colour)
        ax.set(xlabel="x", ylabel="y")
    text, svg = svg_of(shown[0][0])
    named = dict(re.findall(r"(--c\d+):((?:[^;(]|\((?:[^()]|\([^()]*\))*\))+)", svg.get("style")))
    assert f"var(--la-key,{colours['key']})" in named.values()
    assert "var(--la-ground,#ffffff)" in named.values()  # behind the whole
    mixed = f"color-mix(in oklab,var(--la-weights,{colours['weights']}) 25%,var(--la-ground,#ffffff))"
    assert mixed in named.values()
    greys = [mix for mix in named.values() if mix.startswith("color-mix(in oklab,var(--la-residual,")]
    assert greys
    assert not re.search(":#[0-9a-f]{6}", text.replace(svg.get("style"), ""))


@pytest.mark.parametrize(
    "draw", [lambda ax: ax.plot([1, 2], color="red"), lambda ax: ax.imshow([[1, 2]], cmap="viridis")]
)
def test_a_figure_refuses_colours_of_its_own(shown, draw):
    with (
        pytest.raises(
            ValueError, match='figure "Why?": (the colour #ff0000|a picture has colours)'.replace("?", "[?]")
        ),
        figure("Why?", alt="A line.") as ax,
    ):
        draw(ax)
        ax.set(xlabel="x", ylabel="y")
    assert not shown


def test_a_map_has_a_picture_for_either_page(shown):
    with figure("Which signs?", alt="Three cells.") as ax:
        ax.imshow([[-1, 0, 1]], cmap=signed_map, vmin=-1, vmax=1)
        ax.set(xlabel="x", ylabel="y")
    pictures = svg_of(shown[0][0])[1].findall(".//{*}image")
    assert [picture.get("style").split(";")[0] for picture in pictures] == [
        "display:var(--la-in-light,inline)",
        "display:var(--la-in-dark,none)",
    ]
    for picture, shade in zip(pictures, GROUND, strict=True):
        pixels = plt.imread(io.BytesIO(base64.b64decode(picture.get("href").partition(",")[2])))
        wanted = [PALETTE["negative"][shade], GROUND[shade], PALETTE["positive"][shade]]
        assert abs(pixels[0, :, :3] - [to_rgb(colour) for colour in wanted]).max() < 0.006


def test_drawings_define_nothing_under_one_name(shown):
    plot()
    plot(title="Another?")
    first, second = (set(re.findall(r' id="([^"]+)"', svg_of(data)[0])) for data, _ in shown)
    assert first and second and not first & second
    for data, _ in shown:
        text, _ = svg_of(data)
        assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text)) <= set(re.findall(r' id="([^"]+)"', text))


def test_a_heavy_drawing_is_refused(shown):
    sentence = r"the drawing has [\d,]+ bytes; at most 40,000 are allowed"
    with pytest.raises(ValueError, match=sentence), figure("Why?", alt="Noise.") as ax:
        ax.plot(torch.randn(9000, generator=torch.Generator().manual_seed(0)))
        ax.set(xlabel="x", ylabel="y")


def test_figure_is_the_same_to_the_byte_whatever_the_readers_style(shown):
    plot()
    with plt.style.context("dark_background"):
        plot()
    assert shown[0][0] == shown[1][0]


def test_figure_gives_one_axes_or_an_array(shown):
    with figure("One?", alt="One.") as ax:
        assert not isinstance(ax, np.ndarray)
    with figure("Two?", alt="Two.", ncols=2) as axes:
        assert axes.shape == (2,)
    with figure("Six?", alt="Six.", nrows=2, ncols=3) as axes:
        assert axes.shape == (2, 3)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"title": " "}, "title=' '; it must say which question the figure answers"),
        ({"alt": ""}, "alt=''; it must say what the figure shows, in words"),
        (
            {"alt": "<Figure size 600x340>"},
            "alt='<Figure size 600x340>' starts with '<'; it must be plain text, not markup",
        ),
    ],
)
def test_figure_demands_words(shown, changes, sentence):
    with pytest.raises(ValueError) as refusal:
        plot(**changes)
    assert str(refusal.value) == sentence
    assert not shown


def test_figure_demands_labels(shown):
    sentence = r'figure "Why\?": the y axis has no label; add ax.set_ylabel'
    with pytest.raises(ValueError, match=sentence), figure("Why?", alt="A line.") as ax:
        ax.plot([1, 2])
        ax.set_xlabel("x")
    assert not shown


def test_figure_lets_shared_empty_and_hidden_axes_go_without_labels(shown):
    with figure("Shared?", alt="Two lines.", nrows=2, sharex=True, sharey=True) as axes:
        for ax in axes:
            ax.plot([1, 2])
        axes[1].set(xlabel="x", ylabel="y")
    with figure("Hidden?", alt="A line.", ncols=2) as axes:
        axes[1].axis("off")
        axes[1].plot([1, 2])
    assert len(shown) == 2


def test_figure_displays_nothing_after_an_error(shown):
    with pytest.raises(ZeroDivisionError), figure("Why?", alt="A line.") as ax:
        ax.plot([1 / 0])
    assert not shown


def test_attention_map_carries_words_and_numbers(shown):
    weights = torch.tensor([[0.25, 0.75, 0.0], [0.1, 0.2, 0.7]], requires_grad=True)
    with figure("Who looks where?", alt="A map.") as ax:
        attention_map(ax, weights, ["the", "cat"], ["a", "long-haired", "dog"])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "long-haired", "dog"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["the", "cat"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert [t.get_text() for t in ax.texts] == ["0.25", "0.75", "0.00", "0.10", "0.20", "0.70"]


def test_attention_map_prints_numbers_only_where_they_fit(shown):
    with figure("Who looks where?", alt="A map.") as ax:
        attention_map(ax, np.full((9, 2), 0.5), list("abcdefghi"), list("xy"))
    assert not ax.texts


def test_numbers_on_the_map_can_be_read(shown):
    weights = np.linspace(0, 1, 64).reshape(8, 8)
    with figure("Who looks where?", alt="A map.") as ax:
        attention_map(ax, weights, "abcdefgh", "abcdefgh")
    inks = {palette.ON_PALE: ("#000", "#fff"), palette.ON_MIDDLE: ("#fff", "#fff"), palette.ON_DEEP: ("#fff", "#000")}
    [steps] = [steps for steps in palette.MAPS if steps.ends == ("weights",)]
    for text, weight in zip(ax.texts, weights.flat, strict=True):
        for ink, cells in zip(inks[text.get_color()], (steps.light, steps.dark), strict=True):
            assert contrast(ink, cells[round(256 * weight)]) >= 4.5


@pytest.mark.parametrize(
    "weights, sentence",
    [
        (torch.zeros(3, 2), r"weights has shape \(3, 2\); for these tokens it must be \(2, 3\)"),
        (torch.full((2, 3), 1.5), r"weights runs from 1.5 to 1.5; it must stay within \[0, 1\]"),
        (torch.full((2, 3), float("nan")), r"it must stay within \[0, 1\]"),
    ],
)
def test_attention_map_refuses(weights, sentence):
    with pytest.raises(ValueError, match=sentence), figure("Who looks where?", alt="A map.") as ax:
        attention_map(ax, weights, ["a", "b"], ["x", "y", "z"])


def words_of(code):
    """What code says, less docstrings, comments and commas, which formatters add."""
    bare = re.sub(r'r?"""[\s\S]*?"""', "", code)
    return re.sub(r"[\s,]", "", re.sub(r"(^|  )\s*# .*", "", bare, flags=re.MULTILINE))


@pytest.mark.parametrize("obj", [SelfAttention, offsets, Rotary, YaRNScaling, Learned])
def test_source_shows_code_that_fits_and_the_first_lines_of_docstrings(shown, obj):
    source(obj)
    [(data, _)] = shown
    code = data["text/plain"]
    compile(code, "shown", "exec", flags=1 << 24)  # annotations left unread
    assert words_of(code) == words_of(inspect.getsource(obj))
    unbreakable = [line for line in code.splitlines() if len(line) > 72 and not re.search("[\"']| if |^[^()]*$", line)]
    assert not unbreakable
    first = inspect.getdoc(obj).partition("\n")[0]
    assert first in " ".join(code.split())
    assert "Args:" not in code and "Returns:" not in code
    assert data["text/markdown"] == f"```python\n{code}\n```"


class Illustration(Rotary):
    """What follows is shown but for three members."""

    first: int = 1
    """Left out."""
    second = 2

    @classmethod
    @property
    def third(cls):
        return 3

    def fourth(self):
        return 4

    fifth = 5


def test_source_leaves_out_the_members_that_are_named(shown, monkeypatch):
    text = inspect.getsource(Illustration)
    monkeypatch.setattr(inspect, "getsource", lambda obj: text)
    monkeypatch.setattr(Illustration, "__module__", "llm_anatomy.sample")
    source(Illustration, without=("first", "third", "fifth"))
    shown_lines = shown[0][0]["text/plain"].splitlines()
    assert shown_lines[2:] == ["", "    second = 2", "", "    def fourth(self):", "        return 4"]


@pytest.mark.parametrize("obj", [print, "offsets", torch.nn.Linear])
def test_source_refuses_what_is_not_ours(obj):
    with pytest.raises(ValueError, match="it must be a function or class of llm_anatomy"):
        source(obj)


@pytest.mark.parametrize("text", ["1.0000", "(0.2913, 1.0)", "sixteen", "it's 5"])
def test_glue_is_read_by_myst_nb_as_written(shown, text):
    from myst_nb.core.variables import format_plain_text
    from myst_nb.ext.glue import extract_glue_data_cell

    glue("weight", text)
    [(data, metadata)] = shown
    cell = new_code_cell(outputs=[new_output("display_data", data=data, metadata=metadata)])
    [(name, output)] = extract_glue_data_cell(cell)
    assert name == "weight"
    assert format_plain_text(output["data"]["text/plain"], "s") == text
    assert cell.outputs == []  # nothing is left to show where it was glued


@pytest.mark.parametrize(
    "name, text, sentence",
    [
        ("a:b", "1", "name='a:b'; it must consist of letters"),
        ("a", 0.5, "text=0.5; it must be a string, rounded as it is to be read"),
    ],
)
def test_glue_refuses(name, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        glue(name, text)
