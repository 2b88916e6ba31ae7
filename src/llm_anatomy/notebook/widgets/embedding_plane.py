"""The embedding plane: the trained embeddings of a small model, with the neighbours of a word and analogies."""

import torch
import torch.nn.functional as F

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Point

N_NEIGHBOURS, N_ANSWERS = 5, 3
NAME = "before_transformers"


class EmbeddingPlane(Widget):
    """Show trained embeddings in the plane of their largest variance, the nearest neighbours of a word, and analogies.

    The embeddings are those of Bengio's network, trained on the stories. Neighbours and analogies are computed by the
    cosine in all 32 dimensions, and not in the plane. The answer of an analogy "a is to b as c is to ?" is the word
    closest to b - a + c, other than these three. Beside it stands the rank of the expected answer among all tokens,
    for each seed of the experiment: an analogy that the corpus supports has rank 1 with every seed.

    Args:
        word: the initial word, one of those in the plane.
        analogy: the initial analogy, from 0.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: if the word is not in the plane.

    Source: Bengio et al. (2003), section 2; Mikolov et al. (2013), "Linguistic Regularities", section 4; UCL-10,
        UCL-12.

    >>> len(EmbeddingPlane("fox").outputs()["cosines"])
    5
    """

    sentence = (
        "{words[chosen]}: its nearest neighbours are {words[near1]}, {words[near2]}, {words[near3]}, "
        "{words[near4]} and {words[near5]}, with cosines [[{cosines:.2f}]]. {analogies[analogy]}: the closest words "
        "are {words[answer1]}, {words[answer2]} and {words[answer3]}; the expected answer is {expected[analogy]}, "
        "whose ranks among all tokens with five seeds are {ranks[analogy]}."
    )

    def __init__(self, word: str = "fox", analogy: int = 0, *, caption: str = ""):
        rows = table(f"{NAME}_embeddings")
        words = [str(row["token"]) for row in rows]
        if word not in words:
            raise ValueError(f"{word=} must be one of {', '.join(words)}")
        vectors = torch.tensor([[row[column] for column in list(row)[2:]] for row in rows], dtype=torch.float32)
        self.unit = F.normalize(vectors, dim=-1)
        self.plane = _plane(self.unit)
        found: dict[str, list[int]] = {}
        for row in table(f"{NAME}_analogies"):
            if row["model"] == "Bengio":
                found.setdefault(str(row["analogy"]), []).append(row["rank"])
        self.analogies = torch.tensor([[words.index(part) for part in name.split(":")] for name in found])
        parts = [name.split(":") for name in found]
        data = {
            "words": words,
            "analogies": [f"{a} : {b} = {c} : ?" for a, b, c, _ in parts],
            "expected": [d for *_, d in parts],
            "ranks": [", ".join(map(str, ranks)) for ranks in found.values()],
            "places": list("12345"),
        }
        start = (self.plane[words.index(word)] * 100).round() / 100
        super().__init__(
            caption=caption,
            data=data,
            at=Point(start.tolist(), 1.0, label="word", hue="query"),
            analogy=Choice(data["analogies"], data["analogies"][analogy]),
        )

    def compute(self, at, analogy):
        chosen = (-(self.plane - at).square().sum(-1)).argmax()[None]
        near, cosines = _nearest(self.unit, self.unit.index_select(0, chosen)[0], chosen, N_NEIGHBOURS)
        parts = self.analogies.index_select(0, analogy[None])[0]
        a, b, c, _ = self.unit.index_select(0, parts)
        answers, _ = _nearest(self.unit, b - a + c, parts[:3], N_ANSWERS)
        x, y = self.plane.T
        at_near = self.plane.index_select(0, torch.cat(near))
        marked = (torch.arange(len(x)) == torch.cat((chosen, *near))[:, None]).any(0)
        found = {
            "x": torch.where(marked, torch.nan, x),
            "y": y,
            "chosen": chosen[0],
            "chosen_at": self.plane.index_select(0, chosen)[0],
        }
        found |= {"near_x": at_near[:, 0], "near_y": at_near[:, 1], "cosines": cosines}
        words = {f"near{i}": word[0] for i, word in enumerate(near, 1)}
        return found | words | {f"answer{i}": word[0] for i, word in enumerate(answers, 1)}

    def marks(self):
        labels = [f"{{words[near{i}]}}" for i in range(1, N_NEIGHBOURS + 1)]
        neighbours = [
            m.dots(f"near_x[{i}]", f"near_y[{i}]", hue="key", size=5, label=label) for i, label in enumerate(labels)
        ]
        plane = m.plot(
            m.dots("chosen_at[0]", "chosen_at[1]", hue="query", size=7, label="{words[chosen]}"),
            *neighbours,
            m.dots("x", "y", size=2, faint=True, label="@words"),
            m.handle("at"),
            x=m.axis(-1, 1), y=m.axis(-1, 1), aspect=1, title="Embeddings", hint="drag the dot to a word",
        )  # fmt: skip
        bars = m.plot(
            m.bars("cosines", hue="key", across=True),
            *(m.words(0.02, i, label, anchor="start") for i, label in enumerate(labels)),
            x=m.axis(0, 1, "cosine", ticks=[0, 0.5, 1]), y=m.axis(labels="places"),
            title="Nearest to {words[chosen]}", height=230,
        )  # fmt: skip
        answer = m.note(
            "{analogies[analogy]} {words[answer1]}, then {words[answer2]} and {words[answer3]}. Expected: "
            "{expected[analogy]}, whose ranks among all tokens with five seeds are {ranks[analogy]}."
        )
        return [m.row(plane, bars), "analogy", answer]


def _nearest(unit, direction, without, n):
    """The indices of the n rows with the largest cosines to a direction, leaving out some, and these cosines."""
    cosines = unit @ (direction / direction.square().sum().sqrt())
    left_out = (torch.arange(len(unit)) == without[:, None]).any(0)
    found, values = [], []
    for _ in range(n):
        cosines = torch.where(left_out, -2.0, cosines)
        found.append(cosines.argmax()[None])
        values.append(cosines.max())
        left_out = torch.arange(len(unit)) == found[-1]
    return found, torch.stack(values)


def _plane(unit: torch.Tensor) -> torch.Tensor:
    """Project onto the two directions of largest variance, scaled so that the farthest word is at distance 0.95."""
    centred = (unit - unit.mean(0)).double()
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    axes = directions[:2] * directions[:2].gather(1, directions[:2].abs().argmax(1, keepdim=True)).sign()
    plane = centred @ axes.T
    return (0.95 * plane / plane.abs().max()).round(decimals=3).float()
