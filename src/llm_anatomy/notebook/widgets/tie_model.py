"""The model of ties: what the lead in rating and Davidson's parameter say of a win, a tie and a loss."""

import math

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider

FARTHEST = 800


class TieModel(Widget):
    r"""Set the lead of a model and the parameter of ties, and see how often it wins, ties and loses.

    .. math:: P(\text{win}) : P(\text{tie}) : P(\text{loss}) = e^{d/2} : \nu : e^{-d/2}, \quad
        d = \frac{\ln 10}{400} (R_A - R_B)

    The expected score is that of a win plus half that of a tie. Whoever counts ties as half wins takes the score for
    the probability of a win in the model without ties, and so finds a smaller lead.

    Args:
        lead: the lead in rating, from −800 to 800.
        ties: Davidson's parameter, from 0, which means no ties, to 4.
        caption: one sentence that says what to look for.

    Source: Davidson (1970), "On extending the Bradley–Terry model to accommodate ties"; IITD-01, GT-50.

    >>> TieModel(lead=240, ties=1.5)  # doctest: +NORMALIZE_WHITESPACE
    A lead of 240 points, with 1.50 for ties: a win has probability 0.499, a tie 0.375, a loss 0.125, and the expected
    score is 0.687. If ties were counted as half wins, the lead would seem to be 137 points.
    """

    sentence = (
        "A lead of {lead} points, with {ties:.2f} for ties: a win has probability {win:.3f}, a tie {tie:.3f}, a loss "
        "{loss:.3f}, and the expected score is {score:.3f}. If ties were counted as half wins, the lead would seem to "
        "be {seeming:.0f} points."
    )

    def __init__(self, lead: int = 200, ties: float = 1.0, *, caption: str = ""):
        self.leads = torch.linspace(-FARTHEST, FARTHEST, 81)
        super().__init__(
            caption=caption,
            data={"leads": self.leads.tolist()},
            lead=Slider(lead, -FARTHEST, FARTHEST, step=10, label="lead in rating", hue="query"),
            ties=Slider(ties, 0.0, 4.0, step=0.05, label="parameter of ties, ν", hue="weights"),
        )

    def compute(self, lead, ties):
        def outcomes(lead):
            up = torch.exp(lead * (math.log(10) / FARTHEST))
            total = up + ties + 1 / up
            score = (up + ties / 2) / total
            seeming = ((up + ties / 2) / (1 / up + ties / 2)).log() * (400 / math.log(10))
            return {"win": up / total, "tie": ties / total, "loss": 1 / up / total, "score": score, "seeming": seeming}

        curves = {f"{name}_curve": curve for name, curve in outcomes(self.leads).items()}
        return outcomes(lead.float()) | curves | {"level": ties / (2 + ties)}

    def marks(self):
        hues = {"win": "query", "tie": "weights", "loss": "key"}
        outcomes = m.plot(
            *(m.line(f"{name}_curve", "leads", hue=hue) for name, hue in hues.items()),
            m.line("score_curve", "leads", hue="none", dashed=True, width=1.5),
            m.rule(x="lead", hue="none"),
            *(m.dots("lead", name, hue=hue, size=6, label=name) for name, hue in hues.items()),
            x=m.axis(-FARTHEST, FARTHEST, "lead in rating"), y=m.axis(0, 1.08, "probability"),
            title="Win, tie and loss", hint="dashed: the expected score", pick={"x": "lead"}, height=270,
        )  # fmt: skip
        seeming = m.plot(
            m.line("leads", "leads", hue="none", dashed=True, width=1.5),
            m.line("seeming_curve", "leads", hue="value"),
            m.dots("lead", "seeming", hue="value", size=6),
            x=m.axis(-FARTHEST, FARTHEST, "true lead"), y=m.axis(-FARTHEST, FARTHEST, "lead found"),
            title="Ties as half wins", hint="dashed: the true lead", pick={"x": "lead"}, height=270,
        )  # fmt: skip
        facts = {
            "win": "{win:.3f}", "tie": "{tie:.3f}", "loss": "{loss:.3f}", "expected score": "{score:.3f}",
            "lead found, ties as half wins": "{seeming:.0f}", "ties of equal models": "{level:.3f}",
        }  # fmt: skip
        return ["lead", "ties", m.row(outcomes, seeming, shares=[3, 2]), m.facts(**facts)]
