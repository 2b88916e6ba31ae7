"""The merge stepper: byte pair encoding, trained on the reader's own text, one merge after the other."""

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider, Text
from llm_anatomy.notebook.widgets.text import Merges
from llm_anatomy.tokenizers.pretokenization import PreTokenizer

LONGEST, PAIRS = 80, 8


class MergeStepper(Widget):
    """Step through the merges that byte pair encoding learns from a text that the reader types.

    After each merge it shows the text as tokens, the most frequent pairs, of which the first is merged next, and the
    number of tokens against the size of the vocabulary. Of equally frequent pairs, the one with the smaller ids is
    merged first, and overlapping pairs are counted, as ``BPE.train`` does.

    Args:
        text: the initial text, at most 80 characters.
        n_merges: the largest number of merges, 1 to 40.
        pre_tokenizer: cuts the text into pieces, whose borders no merge crosses; by default the text is one piece.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of merges that is not an integer within these bounds, or a pre-tokenizer that the page
            cannot follow.

    Source: Sennrich et al. (2016), algorithm 1; UCL-07, UCL-08.

    >>> stepper = MergeStepper("aabaab", 5)
    >>> stepper.step = 2
    >>> stepper
    After 2 merges, the text has 2 tokens: aab aab. Merge 2 made aab. The next is the first of these pairs: aab + aab, once.
    """  # noqa: E501

    sentence = (
        "After {at:.0f} merge{one|s||s}, the text has {length:.0f} tokens: [[{text_vocabulary[ids]}|| ]]. "
        "[[Merge {last:.0f} made {text_vocabulary[newest]}. ]]{more|No pair is left|The next is the first of these "
        "pairs: }[[{text_vocabulary[left]} + {text_vocabulary[right]}, {counts|never|once|{counts:.0f} times}||; ]]."
    )

    def __init__(
        self, text="aaabdaaabac", n_merges=10, *, pre_tokenizer: PreTokenizer | None = None, caption: str = ""
    ):
        self.n_merges = whole("n_merges", n_merges, 1, 40)
        merges = Merges(n_merges, longest=LONGEST, n_pairs=PAIRS, pre_tokenizer=pre_tokenizer)
        typed = Text(text, longest=LONGEST, encoder=merges, label="your text")
        super().__init__(caption=caption, text=typed, step=Slider(0, 0, n_merges, label="merges"))

    def compute(self, text_ids, text_n, text_left, text_right, text_counts, text_made, step):
        at, steps = torch.minimum(step, text_made), torch.arange(self.n_merges + 1)

        def row(table):
            numbers = table.index_select(0, at[None])[0].float()
            return numbers.masked_fill(numbers < 0, torch.nan)

        counts, last = row(text_counts), at.float().masked_fill(at == 0, torch.nan)[None]
        lengths = text_n.float().masked_fill(steps > text_made, torch.nan)
        return {
            "at": at, "one": at, "length": text_n.index_select(0, at[None])[0], "ids": row(text_ids),
            "last": last, "newest": last + 255, "more": counts[0] > 0,
            "left": row(text_left), "right": row(text_right), "counts": counts,
            "sizes": 256 + steps, "size": 256 + at, "lengths": lengths, "most": text_n.amax().clamp(min=1),
        }  # fmt: skip

    def marks(self):
        tokens = m.chips(
            "{text_vocabulary[ids]}", below="{ids:.0f}", title="The text after {at:.0f} merge{one|s||s}",
            hint="{length:.0f} tokens, with their ids",
        )  # fmt: skip
        pairs = m.chips(
            "{text_vocabulary[left]} + {text_vocabulary[right]}", below="{counts:.0f}×",
            title="{more|No pair is left|Pairs of neighbours}",
            hint="{more||the first is merged next}",
        )  # fmt: skip
        curve = m.plot(
            m.line("lengths", "sizes"), m.dots("size", "length", hue="query", size=6),
            x=m.axis(256, 256 + self.n_merges, "vocabulary size"), y=m.axis(0, "most", "tokens"), height=180,
        )  # fmt: skip
        return ["text", "step", tokens, m.row(pairs, curve)]
