"""The paths of optimizers: against torch.optim step by step, what the notes claim, and what is refused."""

import math

import pytest
import torch
import traitlets

from llm_anatomy.notebook import OptimizerPaths
from llm_anatomy.notebook.widgets.optimizer_paths import EDGE, HIGH, LOW, METHODS, N_STEPS, optimizer_paths

CURVATURES, MINIMUM = torch.tensor([1.0, 10.0]), torch.tensor([2.0, 1.0])
SETTINGS = [  # start, rate, beta, decay
    ((-1.5, 2.5), 0.08, 0.9, 0.0),
    ((-1.5, 2.5), 0.08, 0.9, 0.5),
    ((3.0, -3.0), 0.24, 0.0, 1.0),
    ((0.0, 0.0), 0.01, 0.99, 0.3),
    ((2.0, 1.0), 0.15, 0.5, 0.2),
]


def of_pytorch(method, start, rate, beta, decay):
    """The path that PyTorch's optimizer takes."""
    x = torch.nn.Parameter(torch.tensor(start))
    optimizer = {
        "SGD": lambda: torch.optim.SGD([x], rate, weight_decay=decay),
        "momentum": lambda: torch.optim.SGD([x], rate, momentum=beta, weight_decay=decay),
        "Adam + L2": lambda: torch.optim.Adam([x], rate, betas=(beta, 0.999), weight_decay=decay),
        "AdamW": lambda: torch.optim.AdamW([x], rate, betas=(beta, 0.999), weight_decay=decay),
    }[method]()
    path = [x.detach().clone()]
    for _ in range(N_STEPS):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()
        path.append(x.detach().clone())
    return torch.stack(path)


def loss(x):
    return (CURVATURES * (x - MINIMUM) ** 2).sum(-1) / 2


def paths(start, rate, beta, decay, corrected=True):
    return optimizer_paths(*map(torch.tensor, (start, rate, beta, decay, corrected)))


@pytest.fixture(scope="module")
def made():
    return OptimizerPaths()


def shown(widget, method="SGD", start=(-1.5, 2.5), rate=0.08, beta=0.9, decay=0.0, corrected=True):
    widget.method, widget.start, widget.rate, widget.beta = method, start, rate, beta
    widget.decay, widget.corrected = decay, corrected
    return widget.outputs()


@pytest.mark.syllabus("GT-38", "GT-39")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_each_path_is_that_of_pytorch(method, setting):
    expected = of_pytorch(method, *setting)
    found = paths(*setting)[:, METHODS.index(method)]
    assert found.shape == expected.shape == (N_STEPS + 1, 2)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.syllabus("GT-39")
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_bias_correction_makes_the_first_step_of_adam_as_long_as_the_rate(beta):
    for corrected, length in ((True, 1.0), (False, (1 - beta) / math.sqrt(0.001))):
        found = paths((-1.5, 2.5), 0.05, beta, 0.0, corrected)
        for method in ("Adam + L2", "AdamW"):
            step = (found[1] - found[0])[METHODS.index(method)]
            torch.testing.assert_close(step, 0.05 * length * torch.tensor([1.0, -1.0]), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found[:, :2], paths((-1.5, 2.5), 0.05, beta, 0.0)[:, :2])  # SGD has none


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_drawn_and_said_is_the_path(made, setting):
    expected = paths(*setting)
    for i, method in enumerate(METHODS):
        found = shown(made, method, *setting)
        own = expected[:, i]
        gone = bool((own[-1].abs() > EDGE).any())
        assert found["gone"] == gone and found["last"] == pytest.approx(own[-1].tolist(), rel=1e-4)
        assert found["first"] == pytest.approx((own[1] - own[0]).tolist(), rel=1e-4, abs=1e-6)
        assert found["loss"] == pytest.approx(loss(own[-1]).item(), rel=1e-4)
        inside = (own.abs() <= EDGE).all(-1)
        assert [x == x for x in found["own"][0]] == inside.tolist() == [y == y for y in found["own"][1]]
        assert [x for x in found["own"][1] if x == x] == pytest.approx(own[inside, 1].tolist())
        for axis, drawn in zip(("path_x", "path_y"), found["own"], strict=True):
            assert found[axis][i] == pytest.approx(drawn, nan_ok=True)
        for dots, drawn in zip(found["dots"], found["own"], strict=True):
            assert dots == pytest.approx(drawn[::5], nan_ok=True)
        losses = [min(max(value, LOW), math.inf) if value <= HIGH else math.nan for value in loss(own).tolist()]
        assert found["own_losses"] == pytest.approx(losses, rel=1e-4, nan_ok=True)
        assert found["losses"][i] == pytest.approx(losses, rel=1e-4, nan_ok=True)


def test_the_ellipses_are_levels_of_the_loss_inside_the_frame(made):
    found = shown(made)
    for xs, ys in zip(found["ring_x"], found["ring_y"], strict=True):
        points = torch.tensor([xs, ys]).T
        inside = (points.abs() < EDGE - 1e-4).all(-1)
        assert points.abs().max() <= EDGE and inside.any()
        assert loss(points[inside]).std() < 1e-3 * loss(points[inside]).mean()


@pytest.mark.syllabus("GT-39")
def test_sgd_settles_only_below_the_bound_that_the_note_names(made):
    for decay in (0.0, 1.0):
        bound = shown(made, decay=decay)["bound"]
        assert bound == pytest.approx(2 / (10 + decay))
        for factor in (0.95, 1.05):
            found = paths((-1.5, 2.5), factor * bound, 0.9, decay)[:, 0, 1] - 10 / (10 + decay)
            assert (found[-1].abs() < found[0].abs()) == (factor < 1)


@pytest.mark.syllabus("GT-38")
@pytest.mark.parametrize("decay", [0.5, 1.0])
@pytest.mark.parametrize("start", [(-1.5, 2.5), (3.0, -2.0), (0.0, 0.0)])
def test_the_penalty_spares_the_steep_weight_and_adamw_does_not(made, decay, start):
    found = shown(made, "AdamW", start, decay=decay)
    assert found["penalized"] == pytest.approx([2 / (1 + decay), 10 / (10 + decay)])
    assert found["percent"] == pytest.approx(8 * decay) and found["decay_on"]
    _, _, l2, adamw = paths(start, 0.08, 0.9, decay)[-1] / MINIMUM
    assert adamw[1] < l2[1] and abs(l2[1] - 10 / (10 + decay)) < 0.1
    plain = paths(start, 0.08, 0.9, 0.0)[:, 2:]
    assert torch.equal(plain[:, 0], plain[:, 1])  # without decay, both are Adam


def test_words_are_complete(made):
    shown(made, "SGD", rate=0.24)
    assert repr(made) == (
        "SGD from (−1.50, 2.50), learning rate 0.240, β 0.90, weight decay 0.00: the first step is (0.84, −3.60), and "
        "after 50 steps the weights are outside the picture. The minimum of the loss is at (2.00, 1.00), and with the "
        "L2 penalty at (2.00, 1.00)."
    )
    shown(made, "momentum", rate=0.24)
    assert "after 50 steps the weights are (" in repr(made)  # β makes larger rates stable


@pytest.mark.parametrize(
    "at, sentence",
    [
        ({"method": "Lion"}, "method='Lion'; it must be one of SGD, momentum, Adam"),
        ({"rate": 0.5}, "rate=0.5; it must be a number from 0.01 to 0.24"),
        ({"beta": 1.0}, "beta=1.0; it must be a number from 0 to 0.99"),
        ({"decay": -0.1}, "decay=-0.1; it must be a number from 0 to 1"),
        ({"start": (4, 0)}, r"it must be two numbers from -3 to 3"),
    ],
)
def test_other_values_are_refused(at, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        OptimizerPaths(**at)
