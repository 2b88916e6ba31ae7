"""The normalized axes: the numbers of each cell under each norm, what is highlighted, words, and what it refuses."""

import itertools

import pytest
import torch
import torch.nn.functional as F
import traitlets

from llm_anatomy.layers.normalization import BatchNorm
from llm_anatomy.notebook import NormalizedAxes
from llm_anatomy.notebook.widgets.base import fill
from llm_anatomy.notebook.widgets.normalized_axes import BATCH, EPS, OVER

X = torch.tensor(BATCH, dtype=torch.float32)
CHANNELS = X.mT  # (samples, features, tokens), as PyTorch's functions over channels want it
CELLS = list(itertools.product(*map(range, X.shape)))
PYTORCH = {
    "BatchNorm": F.batch_norm(CHANNELS, None, None, training=True, eps=EPS).mT,
    "LayerNorm": F.layer_norm(X, X.shape[-1:], eps=EPS),
    "InstanceNorm": F.instance_norm(CHANNELS, eps=EPS).mT,
    "GroupNorm": F.group_norm(CHANNELS, 2, eps=EPS).mT,
    "RMSNorm": F.rms_norm(X, X.shape[-1:], eps=EPS),
}


@pytest.fixture(scope="module", params=OVER)
def shown(request):
    """The norm, and what the widget shows for each cell."""
    widget, found = NormalizedAxes(request.param), {}
    for cell in CELLS:
        widget.sample, widget.token, widget.feature = cell
        found[cell] = widget.outputs() | widget.values()
    return request.param, found


@pytest.mark.syllabus("IITD-41", "UCL-25", "CMU-20")
def test_each_number_is_normalized_as_pytorch_does(shown):
    norm, found = shown
    ours = torch.tensor([found[cell]["normalized"] for cell in CELLS])
    torch.testing.assert_close(ours, PYTORCH[norm].flatten())


def test_batch_norm_is_that_of_the_package():
    torch.testing.assert_close(BatchNorm(X.shape[-1], eps=EPS)(X), PYTORCH["BatchNorm"])


@pytest.mark.syllabus("IITD-40", "IITD-41", "UCL-25")
def test_statistics_and_highlight_are_those_of_the_index_that_is_shown(shown):
    norm, found = shown
    for cell, known in found.items():
        index = fill(OVER[norm], {name: int(v) for name, v in known.items() if isinstance(v, int | float)})
        marked = torch.zeros_like(X)
        exec(f"{index} = 1", {"x": marked})
        assert torch.equal(torch.tensor(known["shared"]).view_as(X) > 0, marked > 0) and marked[cell] == 1
        numbers = X[marked > 0]
        assert known["count"] == len(numbers)
        assert known["mean"] == pytest.approx(numbers.mean().item(), abs=1e-5)
        assert known["deviation"] == pytest.approx(numbers.std(correction=0).item(), abs=1e-5)
        assert known["root"] == pytest.approx(numbers.square().mean().sqrt().item(), abs=1e-5)


def test_the_formula_in_words_gives_the_value(shown):
    norm, found = shown
    for known in found.values():
        middle, scale = (0, known["root"]) if norm == "RMSNorm" else (known["mean"], known["deviation"])
        assert (known["value"] - middle) / scale == pytest.approx(known["normalized"], abs=1e-4)
        assert known["rms"] == (norm == "RMSNorm")


def test_sizes_differ_and_the_first_tokens_are_the_lectures_batch():
    assert len({*X.shape, 2}) == 4
    assert X[:, 0].tolist() == [[1, 3, 5, 7], [3, 4, 6, 2], [8, 3, 2, 1]]


def test_each_cell_is_drawn_on_the_sheet_of_its_sample():
    data = NormalizedAxes().data
    for (sample, token, feature), y, x in zip(CELLS, data["y"], data["x"], strict=True):
        top, foot = min(data["sheet_y"][sample]), max(data["sheet_y"][sample])
        assert top + token == pytest.approx(min(y)) and min(y) + 1 == pytest.approx(max(y)) and max(y) <= foot
        lean = (foot - min(y)) / (foot - top) * (data["sheet_x"][0] - data["sheet_x"][3])  # of the line at its top
        assert x[0] == pytest.approx(feature + lean, abs=1e-5)


def test_words_are_complete():
    widget = NormalizedAxes("RMSNorm")
    widget.sample, widget.feature = 2, 0
    assert repr(widget) == (
        "RMSNorm at sample 2, token 0, feature 0: the statistics are those of x[2, 0, :], 4 numbers with mean 3.50, "
        "standard deviation 2.69 and root mean square 4.42. The normalized value is 8 / 4.42 = 1.81."
    )
    widget.norm = "GroupNorm"
    assert "those of x[2, :, 0:2], 10 numbers" in repr(widget)


def test_normalized_axes_refuses():
    with pytest.raises(traitlets.TraitError, match="norm='Batch'; it must be one of BatchNorm, LayerNorm, Instance"):
        NormalizedAxes("Batch")
