"""The flow explorer: the tensors of each step, the rows that change, and what it refuses."""

import math

import pytest
import torch

from llm_anatomy.notebook import FlowExplorer

TOKENS, START = ["a", "dog", "ran", "off"], ["a", "dog", "ran"]
HUES = {"embedding": "residual", "scores": "weights", "weights": "weights", "mixed": "value"}
TABLE = torch.tensor([[1.0, -2.0], [0.0, 2.0], [3.0, 0.5], [-1.0, 1.5]])


def run(ids):
    x = TABLE[ids]
    scores = torch.stack([x @ x.mT, 2 * x @ x.mT])  # two heads
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return {"embedding": x, "scores": scores, "weights": weights, "mixed": weights[0] @ x}


def explorer(**changes):
    return FlowExplorer(**{"run": run, "tokens": TOKENS, "start": START, "hues": HUES} | changes)


@pytest.mark.syllabus("IITD-02", "IITD-42", "CMU-02")
def test_each_step_shows_its_tensor_and_its_shape():
    widget, steps = explorer(), run(torch.tensor([0, 1, 2]))
    for widget.step, (name, tensor) in enumerate(steps.items()):
        shown = torch.tensor(widget.outputs()["shown"])
        heads = tensor if tensor.ndim == 3 else tensor[None]
        laid_out = torch.cat([torch.cat([head, torch.full((3, 1), torch.nan)], 1) for head in heads], 1)[:, :-1]
        assert shown.shape == (3, 7)
        torch.testing.assert_close(shown[:, : laid_out.shape[1]], laid_out, equal_nan=True)
        assert shown[:, laid_out.shape[1] :].isnan().all()
        assert f"Step {widget.step + 1}, {name}, of shape {tuple(tensor.shape)}, for a dog ran" in repr(widget)


@pytest.mark.syllabus("IITD-44", "IITD-46")
def test_the_mask_keeps_a_changed_last_token_in_its_own_row():
    widget = explorer()
    assert widget.outputs()["count"] == 0
    widget.last = 3
    changed = []
    for widget.step in range(4):
        changed.append([row for row in widget.outputs()["changed"] if row == row])
    assert changed == [[2], [0, 1, 2], [2], [2]]
    widget.step = 1
    assert "for a dog off" in repr(widget) and "3 of 3 rows have changed" in repr(widget)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"start": ["dog"]}, r"start=\['dog'\]; it must be two or more of the tokens a, dog, ran, off"),
        ({"start": ["a", "cat"]}, r"start=\['a', 'cat'\]; it must be two or more of the tokens"),
        ({"tokens": "a dog"}, "tokens='a dog'; it must be a non-empty list of non-empty strings"),
        ({"hues": {}}, r"hues\['embedding'\]=None; it must be one of query, key"),
        ({"run": lambda ids: {"embedding": TABLE[ids[:2]]}}, r"'embedding' of shape \(2, 2\); it must be \(tokens"),
        ({"run": lambda ids: {"embedding": torch.ones(3, 17)}}, r"of shape \(3, 17\); it must be .* at most 16 wide"),
        ({"run": lambda ids: {"embedding": torch.ones(3)}}, r"'embedding' of shape \(3,\); it must be \(tokens"),
    ],
)
def test_flow_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        explorer(**changes)
