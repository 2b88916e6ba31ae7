"""The palette, the plotting helper, and what a notebook shows of the package."""

import base64
import io
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from nbformat.v4 import new_code_cell, new_output

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.positions.base import offsets
from llm_anatomy.notebook import attention_map, colours, figure, figures, glue, signed_map, source, weights_map
from llm_anatomy.notebook.figures import PALETTE

NOTIONS = ["query", "key", "value", "weights", "position", "normalization", "feedforward", "residual"]
GROUND = {"light": "#ffffff", "dark": "#14181e"}
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
    assert list(PALETTE) == [*NOTIONS, "negative", "positive"]
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
        return figures._TO_LAB @ np.cbrt(figures._TO_CONES @ rgb)

    apart = {pair: np.linalg.norm(seen(pair[0]) - seen(pair[1])) for pair in itertools.combinations(NOTIONS, 2)}
    assert min(apart.values()) > least, min(apart, key=apart.get)
    assert np.linalg.norm(seen("negative") - seen("positive")) > least


@pytest.mark.parametrize("half", [weights_map, signed_map, signed_map.reversed()])
def test_maps_are_white_at_zero_and_even(half):
    steps = np.linspace(0 if half is weights_map else 0.5, 1, 17)
    lab = figures._to_oklab(half(steps)[:, :3])
    assert lab[0, 0] == pytest.approx(1, abs=0.005)
    stride = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    assert (np.diff(lab[:, 0]) < 0).all()
    assert stride.max() / stride.min() < 1.01


def plot(show=None, **changes):
    said = {"title": "Where does it end?", "alt": "A line from (0, 1)\nto (2, 3)."} | changes
    with figure(**said, **({"show": show} if show else {})) as ax:
        ax.plot([0, 2], [1, 3])
        ax.set(xlabel="time / s", ylabel="height / m")


def test_figure_displays_one_picture_with_its_words(shown):
    plot(width=4, height=3)
    [(data, metadata)] = shown
    assert list(data) == ["image/png", "text/plain"]
    assert data["text/plain"] == "A line from (0, 1) to (2, 3)."
    assert metadata == {"image/png": {"width": 384}}
    pixels = plt.imread(io.BytesIO(data["image/png"]))
    assert pixels.shape[:2] == (3 * 144, 4 * 144)
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == 1).all()  # white and opaque, for every theme around it
    assert not plt.get_fignums()


def test_a_figure_is_lean_and_nobody_sees_it(shown, monkeypatch):
    whole, opens = [], figures.Image.open
    monkeypatch.setattr(figures.Image, "open", lambda file: whole.append(file.getvalue()) or opens(file))
    with figure("Which colours are there?", alt="A wave in two colours.") as ax:
        ax.imshow(
            (torch.linspace(-9, 9, 400).sin()[None] * torch.linspace(0, 1, 200)[:, None]).numpy(), cmap=signed_map
        )
        ax.set(xlabel="position", ylabel="height")
    lean = shown[0][0]["image/png"]
    small, all_colours = (plt.imread(io.BytesIO(png))[..., :3] for png in (lean, *whole))
    assert len(lean) < len(whole[0]) / 2
    assert abs(small - all_colours).max() < 12 / 255 and abs(small - all_colours).mean() < 2 / 255


def test_figure_is_the_same_to_the_byte_whatever_the_readers_style(shown):
    plot()
    with plt.style.context("dark_background"):
        plot()
    assert shown[0][0]["image/png"] == shown[1][0]["image/png"]


def test_figure_gives_one_axes_or_an_array():
    def nothing(*_):
        pass

    with figure("One?", alt="One.", show=nothing) as ax:
        assert not isinstance(ax, np.ndarray)
    with figure("Two?", alt="Two.", ncols=2, show=nothing) as axes:
        assert axes.shape == (2,)
    with figure("Six?", alt="Six.", nrows=2, ncols=3, show=nothing) as axes:
        assert axes.shape == (2, 3)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"title": " "}, "title=' '; it must say which question the figure answers"),
        ({"alt": ""}, "alt=''; it must say what the figure shows, in words"),
        ({"alt": "<Figure size 600x340>"}, "alt='<Figure size 600x340>' starts with '<'; it must be words, not markup"),
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


def test_attention_map_carries_words_and_numbers():
    weights = torch.tensor([[0.25, 0.75, 0.0], [0.1, 0.2, 0.7]], requires_grad=True)
    with figure("Who looks where?", alt="A map.", show=lambda *_: None) as ax:
        attention_map(ax, weights, ["the", "cat"], ["a", "long-haired", "dog"])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "long-haired", "dog"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["the", "cat"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert [t.get_text() for t in ax.texts] == ["0.25", "0.75", "0.00", "0.10", "0.20", "0.70"]


def test_attention_map_prints_numbers_only_where_they_fit():
    with figure("Who looks where?", alt="A map.", show=lambda *_: None) as ax:
        attention_map(ax, np.full((9, 2), 0.5), list("abcdefghi"), list("xy"))
    assert not ax.texts


def test_numbers_on_the_map_can_be_read():
    weights = np.linspace(0, 1, 64).reshape(8, 8)
    with figure("Who looks where?", alt="A map.", show=lambda *_: None) as ax:
        attention_map(ax, weights, "abcdefgh", "abcdefgh")
    for text, weight in zip(ax.texts, weights.flat, strict=True):
        assert contrast(text.get_color(), weights_map(weight)) >= 4.5


@pytest.mark.parametrize(
    "weights, sentence",
    [
        (torch.zeros(3, 2), r"weights has shape \(3, 2\); the words call for \(2, 3\)"),
        (torch.full((2, 3), 1.5), r"weights runs from 1.5 to 1.5; it must stay within \[0, 1\]"),
        (torch.full((2, 3), float("nan")), r"it must stay within \[0, 1\]"),
    ],
)
def test_attention_map_refuses(weights, sentence):
    with pytest.raises(ValueError, match=sentence), figure("Who looks where?", alt="A map.") as ax:
        attention_map(ax, weights, ["a", "b"], ["x", "y", "z"])


@pytest.mark.parametrize("obj", [SelfAttention, offsets])
def test_source_shows_code_and_not_the_docstring(shown, obj):
    source(obj)
    [(data, _)] = shown
    code = data["text/plain"]
    assert code.startswith(("class SelfAttention(MultiHeadAttention):\n    def forward(", "def offsets(\n"))
    assert "Args:" not in code
    compile(code, "shown", "exec", flags=1 << 24)  # annotations left unread
    assert data["text/markdown"] == f"```python\n{code}\n```"


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


def test_pictures_reach_a_notebook_as_text():
    """The real display: IPython turns the bytes into base64."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            plot()
    finally:
        InteractiveShell.clear_instance()
    [output] = captured.outputs
    png = output.data["image/png"]
    assert (png if isinstance(png, bytes) else base64.b64decode(png)).startswith(b"\x89PNG")
