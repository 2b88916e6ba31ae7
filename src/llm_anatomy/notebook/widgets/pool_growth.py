"""The growth of a pool of instructions: what each round brings, and what a threshold on ROUGE-L refuses."""

from collections.abc import Callable, Sequence

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider
from llm_anatomy.notebook.widgets.text import harmless

THRESHOLDS = [0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0]
ACCEPTED, NEAR = "accepted", "near-duplicate"
HUES = ("positive", "negative", "none")


class PoolGrowth(Widget):
    r"""Follow a pool of instructions over the rounds of Self-Instruct: what is accepted, and what is refused and why.

    An instruction x that no other filter refuses enters the pool if its ROUGE-L with every instruction p that is there
    is below the threshold t:

    .. math:: \max_{p \in \mathrm{pool}} F(x, p) < t

    Since a later instruction is compared with those that were accepted, each threshold has a pool of its own. The
    candidates stay the same: with another pool, a model would have been shown other tasks, and would have written
    others.

    Args:
        seeds: the instructions of the seed tasks.
        rounds: the instructions that were written in each round, in their order.
        refused_by: gives the name of the first other filter that refuses an instruction, or None.
        score: gives the ROUGE-L of two instructions.
        threshold: the initial threshold, one of ``THRESHOLDS``.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: if there is no seed, no round or no instruction, or a threshold that is not among them.

    Source: Wang et al. (2022), section 2.2 and its figure of the distances from the seed tasks; GT-46.

    >>> def score(first, second):  # words in common, for short
    ...     a, b = first.split(), second.split()
    ...     return 2 * len(set(a) & set(b)) / (len(a) + len(b))
    >>> rounds = [["Name a fish.", "Sort the list."], ["Sort the words.", "Sing."]]
    >>> short = lambda text: "length" if len(text) < 8 else None
    >>> PoolGrowth(["Name a bird."], rounds, short, score)  # doctest: +NORMALIZE_WHITESPACE
    Threshold 0.70: of 4 instructions in 2 rounds, 3 accepted, 0 near-duplicate, 1 length. The pool grows from 1 to 4.
    Instruction 1, of round 1: “Name a fish.”: accepted; its ROUGE-L with “Name a bird.” is 0.67.
    """

    sentence = (
        "Threshold {threshold:.2f}: of {n} instructions in {n_rounds} rounds, [[{counts:.0f} {kinds}]]. The pool grows "
        "from {n_seeds} to {size:.0f}. Instruction {candidate}, of round {round:.0f}: “{texts[own]}”: "
        "{kinds[outcome]}; its ROUGE-L with “{texts[nearest]}” is {score:.2f}."
    )

    def __init__(
        self,
        seeds: Sequence[str],
        rounds: Sequence[Sequence[str]],
        refused_by: Callable[[str], str | None],
        score: Callable[[str, str], float],
        threshold: float = 0.7,
        *,
        caption: str = "",
    ):
        seeds = list_of_strings("seeds", seeds)
        written = list_of_strings("rounds", [text for texts in rounds for text in texts])
        reasons = {text: refused_by(text) for text in dict.fromkeys(written)}
        kinds = [ACCEPTED, NEAR, *dict.fromkeys(reason for reason in reasons.values() if reason)]
        texts = list(dict.fromkeys([*seeds, *written]))
        number = {text: i for i, text in enumerate(texts)}
        scores = {text: [score(text, other) for other in texts] for text in reasons}
        outcomes, nearest = [], []
        for limit in THRESHOLDS:
            pool = [number[text] for text in seeds]
            outcomes.append([])
            nearest.append([])
            for text in written:
                closest = max(pool, key=scores[text].__getitem__)
                near = scores[text][closest] >= limit
                outcomes[-1].append(kinds.index(reasons[text]) if reasons[text] else int(near))
                nearest[-1].append(closest)
                if not outcomes[-1][-1]:
                    pool.append(number[text])
        self.outcomes, self.nearest = torch.tensor(outcomes), torch.tensor(nearest)  # (thresholds, candidates)
        closest = [[scores[text][i] for text, i in zip(written, row, strict=True)] for row in nearest]
        self.scores = (100 * torch.tensor(closest)).round().int()  # hundredths
        self.own = torch.tensor([number[text] for text in written])
        self.rounds = torch.tensor([i for i, texts in enumerate(rounds) for _ in texts])
        self.n_kinds, self.thresholds = len(kinds), torch.tensor(THRESHOLDS)
        sizes = self.rounds.bincount(minlength=len(rounds))
        super().__init__(
            caption=caption,
            data={
                "texts": [harmless(text) for text in texts],
                "kinds": kinds,
                "kind_hues": [HUES[min(i, 2)] for i in range(len(kinds))],
                "n": len(written),
                "n_rounds": len(rounds),
                "n_seeds": len(seeds),
                "most": 1.1 * int(sizes.max()),
                "all": len(seeds) + len(written),
                "columns": list(range(1, len(rounds) + 1)),
            },
            threshold=Slider(threshold, values=THRESHOLDS, digits=2),
            candidate=Slider(1, 1, len(written), label="instruction"),
        )

    def compute(self, threshold, candidate):
        at = (self.thresholds == threshold).int().argmax()[None]
        outcomes, nearest, scores = (x.index_select(0, at)[0] for x in (self.outcomes, self.nearest, self.scores))
        members = self.rounds == torch.arange(self.data["n_rounds"])[:, None]  # (rounds, candidates)
        accepted, near = ((members & (outcomes == kind)).sum(1) for kind in (0, 1))
        counts = (outcomes == torch.arange(self.n_kinds)[:, None]).sum(1)
        growth = self.data["n_seeds"] + torch.cat((torch.zeros(1), accepted.cumsum(0)))
        chosen = (candidate - 1)[None]
        own, near_text, hundredths, outcome, round_ = (
            x.index_select(0, chosen)[0] for x in (self.own, nearest, scores, outcomes, self.rounds)
        )
        return {
            "accepted": accepted, "near": accepted + near, "others": members.sum(1), "counts": counts,
            "growth": growth, "size": growth[-1], "n_accepted": counts[0], "n_near": counts[1],
            "count_high": 1.2 * counts.amax(), "own": own, "nearest": near_text, "score": hundredths / 100,
            "outcome": outcome, "round": round_ + 1,
        }  # fmt: skip

    def marks(self):
        n_rounds, columns = self.data["n_rounds"], self.data["columns"]
        every = columns[:: -(-n_rounds // 8)]
        rounds = m.plot(
            m.bars("others", columns, base="near", hue="none"),
            m.bars("near", columns, base="accepted", hue="negative"),
            m.bars("accepted", columns, hue="positive"),
            m.rule(x="round"),
            x=m.axis(0.4, n_rounds + 0.6, "round", ticks=every), y=m.axis(0, "most"),
            title="Instructions of each round", hint="green: accepted; orange: near-duplicates; grey: refused before",
        )  # fmt: skip
        reasons = m.plot(
            m.bars("counts", across=True, hue="@kind_hues", text="{value:.0f}"),
            x=m.axis(0, "count_high", ticks=[]), y=m.axis(labels="kinds"), title="All rounds",
            height=26 * self.n_kinds + 12,
        )  # fmt: skip
        growth = m.plot(
            m.line("growth", hue="positive"), m.rule(x="round"),
            x=m.axis(0, n_rounds, "round", ticks=[0, *every]), y=m.axis(0, "all"), title="Size of the pool",
            hint="the top of the frame: nothing is refused", height=180,
        )  # fmt: skip
        facts = {
            "instructions written": "{n}", "accepted": "{n_accepted:.0f}", "near-duplicates": "{n_near:.0f}",
            "tasks in the pool": "{size:.0f}",
        }  # fmt: skip
        said = (
            "Instruction {candidate}, of round {round:.0f}: “{texts[own]}” Closest in the pool: “{texts[nearest]}”, "
            "with a ROUGE-L of {score:.2f}. Outcome: {kinds[outcome]}."
        )
        return ["threshold", m.facts(**facts), m.row(rounds, growth), reasons, "candidate", m.note(said)]
