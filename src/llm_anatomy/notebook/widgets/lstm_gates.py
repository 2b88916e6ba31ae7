"""The gates of a small trained LSTM over a sentence, unit by unit: one unit keeps the number of the subject."""

import torch

from llm_anatomy.data import table
from llm_anatomy.layers.recurrent import LSTMCell
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice

NOUNS = {"subject": ["key", "keys"], "second": ["door", "doors"], "third": ["tree", "trees"]}
WORDS = ["the", "near", "behind", *(noun for pair in NOUNS.values() for noun in pair)]
VERBS = ["is", "are"]
PARTS = ["input gate", "forget gate", "candidate", "output gate", "cell", "hidden state"]
REACH = 3.0
"""A cell of this size has the full colour."""


class LSTMGates(Widget):
    """Show gates, cell and hidden state of one unit of a trained LSTM, token by token, and the verb that it prefers.

    The LSTM has six units and was trained on sentences such as "the key near the doors is red .", in which the verb
    agrees with the first noun. The reader chooses the number of each noun, and a unit. One unit keeps the number of the
    subject: its cell takes it up there, and its forget gate holds it until the verb.

    Args:
        subject, second, third: the initial nouns: key or keys, door or doors, tree or trees.
        unit: the initial unit, from 1 to 6; by default the one that keeps the number.
        caption: one sentence that says what to look for.

    Source: Hochreiter and Schmidhuber (1997); the task is that of Linzen et al. (2016), section 2, the unit as in
        Lakretz et al. (2019), section 3; UCL-15.

    >>> LSTMGates("keys", "door", "tree").outputs()["preferred"]
    1.0
    """

    sentence = (
        "“the {subject} near the {second} behind the {third} …”: from token to token, the cell of unit {unit} is "
        "[[{cell:.2f}]], with the forget gate [[{forget:.2f}]]. Of “is” and “are”, the LSTM then gives “is” "
        "{share[0]:.3f} and “are” {share[1]:.3f}."
    )

    def __init__(self, subject="key", second="doors", third="trees", unit: int | None = None, *, caption: str = ""):
        self.embedding, self.cell, self.unembedding = _trained()
        if unit is None:
            settings = {row["field"]: row["value"] for row in table("before_transformers_experiment")}
            unit = settings["number_unit"] + 1
        starts = zip(NOUNS, (subject, second, third), strict=True)
        super().__init__(
            caption=caption,
            data={"words": WORDS, "verbs": VERBS, "columns": ["", *PARTS], "rows": list("12345678")},
            **{name: Choice(NOUNS[name], start, label=f"{name} noun") for name, start in starts},
            unit=Choice([n + 1 for n in range(self.cell.d_hidden)], unit),
        )

    def compute(self, subject, second, third, unit):
        nouns = [3 + 2 * i + number for i, number in enumerate((subject, second, third))]
        the, near, behind = torch.arange(3)
        ids = torch.stack([the, nouns[0], near, the, nouns[1], behind, the, nouns[2]])
        projected = self.cell.project_input(self.embedding[ids])  # (tokens, gates)
        state, rows = self.cell.initial_state(projected[:1]), []
        for x in projected.split(1):
            i, f, g, o = (x + self.cell.project_state(state[0])).view(4, -1)
            state = self.cell.step(x, state)
            h, c = state
            rows.append(torch.stack([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid(), c[0], h[0]]))
        parts = torch.stack(rows).index_select(2, unit[None])[..., 0]  # (tokens, parts) of this unit
        ended = torch.cat((state[0][0], torch.ones(1)))
        share = (self.unembedding @ ended).softmax(-1)
        shown = torch.cat((torch.full((len(ids), 1), torch.nan), parts), 1)
        kinds = {"gates": [1, 2, 4], "between": [3, 6], "cells": [5]}
        kept = {n: torch.where(_marked(some, shown.shape[1]), shown, torch.nan) for n, some in kinds.items()}
        found = {"forget": parts[:, 1], "cell": parts[:, 4], "share": share, "preferred": share.argmax()}
        return found | kept | {f"word{t}": ids[t] for t in range(len(ids))}

    def marks(self):
        text = "{value:.2f}"
        grid = m.plot(
            m.cells("gates", hue="weights", text=text),
            m.cells("between", text=text),
            m.cells("cells", reach=REACH, text=text),
            *(m.words(0, t, f"{{words[word{t}]}}") for t in range(8)),
            x=m.axis(labels="columns"), y=m.axis(labels="rows"), height=400, title="Unit {unit}, token by token",
        )  # fmt: skip
        verbs = m.plot(
            m.bars("share", hue="feedforward", across=True, text="{value:.3f}"),
            x=m.axis(0, 1.3, ticks=[0, 1]), y=m.axis(labels="verbs"), title="The verb that it prefers", height=130,
        )  # fmt: skip
        return [m.row("subject", "second", "third", shares=[1]), "unit", grid, verbs]


def _marked(columns: list[int], n_columns: int) -> torch.Tensor:
    return torch.tensor([column in columns for column in range(n_columns)])


def _trained() -> tuple[torch.Tensor, LSTMCell, torch.Tensor]:
    """Read the LSTM: the embeddings of the words, the cell, and the rows of the verbs in the last layer, with bias."""
    values: dict[str, dict] = {}
    for row in table("before_transformers_lstm"):
        values.setdefault(str(row["parameter"]), {}).setdefault(row["row"], []).append(row["value"])
    cell = LSTMCell(len(values["weight_ih"][0]), len(values["weight_hh"][0]))
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            parameter.copy_(torch.tensor(list(values[name].values())).view_as(parameter))
    tables = {"embedding": WORDS, "unembedding": VERBS}
    embedding, unembedding = (torch.tensor([values[name][word] for word in words]) for name, words in tables.items())
    return embedding, cell.requires_grad_(False), unembedding
