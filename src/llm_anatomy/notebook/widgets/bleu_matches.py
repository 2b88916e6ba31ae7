"""The matches of BLEU: which n-grams of a candidate count, in two lines that the reader types."""

import torch
import torch.nn.functional as F

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Text
from llm_anatomy.notebook.widgets.text import Merges
from llm_anatomy.tokenizers.pretokenization import PreTokenizer

LONGEST, ORDERS = 100, (1, 2, 3, 4)
WORDS = LONGEST // 2
GAPS = (9, 10, 13, 32)
"""The bytes that separate words: tab, both ends of a line, and space."""


class BleuMatches(Widget):
    r"""Type a candidate and a reference, and see which n-grams match, which are clipped, and what BLEU makes of them.

    An n-gram counts at most as often as the reference has it: its k-th occurrence in the candidate is a match if the
    reference has it k times at least.

    .. math:: \mathrm{BLEU} = 100 \min\left(1, e^{1 - r/c}\right) \left(p_1 p_2 p_3 p_4\right)^{1/4}

    There is no smoothing: if one precision is 0, so is BLEU. Words are what stands between spaces. They are the tokens
    of byte pair encoding, trained on the text until each word is a single token; a text that has more than 200 bytes in
    different words, such as a long one in Chinese, may have some of its words in pieces.

    Args:
        candidate, reference: the initial sentences, with at most 99 characters together.
        caption: one sentence that says what to look for.

    Source: Papineni et al. (2002), "BLEU: a method for automatic evaluation of machine translation", section 2; CMU-27.

    >>> BleuMatches("the the the cat", "the cat sat")  # doctest: +NORMALIZE_WHITESPACE
    A candidate of 4 words and a reference of 3. 1-grams: 2 of 4 match, 2 are clipped. 2-grams: 1 of 3 match, 0 are
    clipped. 3-grams: 0 of 2 match, 0 are clipped. 4-grams: 0 of 1 match, 0 are clipped. The brevity penalty is 1.000,
    and BLEU is 0.00.
    """

    sentence = (
        "A candidate of {n_words:.0f} words and a reference of {n_reference:.0f}. [[{n}-grams: {matches:.0f} of "
        "{totals:.0f} match, {clipped:.0f} are clipped.|| ]] The brevity penalty is {penalty:.3f}, and BLEU is "
        "{bleu:.2f}."
    )

    def __init__(
        self,
        candidate: str = "the cat sat on the mat and the cat slept",
        reference: str = "the cat sat on the mat and slept",
        *,
        caption: str = "",
    ):
        merges = Merges(2 * LONGEST, longest=LONGEST, n_pairs=1, pre_tokenizer=PreTokenizer(r"[^ \n\t\r]+"))
        both = " ".join(candidate.split()) + "\n" + reference
        typed = Text(both, longest=LONGEST, encoder=merges, label="candidate, and in the next line the reference")
        super().__init__(caption=caption, data={"n": list(ORDERS), "hues": ["none", "key", "value"]}, text=typed)

    def compute(self, text_ids, **rest):
        ids = text_ids[-1]
        is_word = (ids >= 0) & torch.stack([ids != gap for gap in GAPS]).all(0)
        below = (ids == 10).int().cumsum(0) > 0
        candidate, reference = _words(ids, is_word & ~below), _words(ids, is_word & below)
        found = {f"word_{k}": F.pad(candidate[k:], (0, k), value=torch.nan) for k in range(4)}
        found |= {"reference": reference, **_counted(reference, candidate, 1, "in_reference")}
        for n in ORDERS:
            found |= _counted(candidate, reference, n, str(n))
        matches, clipped, totals = (
            torch.stack([kept(found[f"state_{n}"]).sum() for n in ORDERS])
            for kept in (lambda state: state == 2, lambda state: state == 1, lambda state: state >= 0)
        )
        n_words, n_reference = ((~words.isnan()).sum() for words in (candidate, reference))
        penalty = torch.exp(1 - n_reference / n_words.clamp(min=1)).clamp(max=1) * (n_words > 0)
        mean = (matches.clamp(min=1) / totals.clamp(min=1)).log().mean().exp()
        return found | {
            "matches": matches, "clipped": clipped, "totals": totals, "n_words": n_words, "n_reference": n_reference,
            "penalty": penalty, "bleu": 100 * penalty * mean * (matches > 0).all(),
        }  # fmt: skip

    def marks(self):
        grams = [" ".join(f"{{text_vocabulary[word_{k}]}}" for k in range(n)) for n in ORDERS]
        candidates = [
            m.chips(
                gram, below=f"{{seen_{n}:.0f}} of {{there_{n}:.0f}}", hue=f"{{hues[state_{n}]}}",
                title=f"{{matches[{n - 1}]:.0f}} of {{totals[{n - 1}]:.0f}} {n}-grams of the candidate match",
                hint=f"{{clipped[{n - 1}]:.0f}} clipped",
            )
            for n, gram in zip(ORDERS, grams, strict=True)
        ]  # fmt: skip
        reference = m.chips(
            "{text_vocabulary[reference]}", hue="{hues[state_in_reference]}", title="The words of the reference",
            hint="green: matched; grey: left over",
        )  # fmt: skip
        legend = m.note(
            "Below an n-gram stands which occurrence it is, of how many in the reference. Green matches, orange is "
            "clipped, because the reference has it less often, and grey is not in the reference."
        )
        facts = {f"precision of {n}-grams": f"{{matches[{n - 1}]:.0f}}/{{totals[{n - 1}]:.0f}}" for n in ORDERS}
        facts |= {"brevity penalty": "{penalty:.3f}", "BLEU": "{bleu:.2f}"}
        return ["text", m.facts(**facts), reference, legend, *candidates]


def _words(ids, chosen):
    """The ids of the chosen tokens, moved to the front, and NaN after them."""
    order = (~chosen).int().sort(stable=True).indices[:WORDS]
    return torch.where(chosen, ids, torch.nan).index_select(0, order)


def _counted(text, other, n, name):
    """For each n-gram of a text: which occurrence it is, how often the other text has it, and 2 for a match, 1 for a
    clipped one, 0 if it is missing there; NaN after the last n-gram."""
    own, others = (torch.stack([F.pad(x[k:], (0, k), value=torch.nan) for k in range(n)]) for x in (text, other))
    seen = (own[:, :, None] == own[:, None, :]).all(0).tril().sum(1)
    there = (own[:, :, None] == others[:, None, :]).all(0).sum(1)
    state = torch.where(seen <= there, 2.0, (there > 0).float())
    return {
        f"seen_{name}": seen, f"there_{name}": there, f"state_{name}": torch.where(seen > 0, state, torch.nan)
    }  # fmt: skip
