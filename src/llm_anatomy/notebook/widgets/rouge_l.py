"""ROUGE-L of two sentences that the reader types, with the words that they have in the same order."""

import string

import torch
from torch import Tensor

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Text
from llm_anatomy.notebook.widgets.text import Encoder
from llm_anatomy.tokenizers.simple import CharacterTokenizer

LONGEST, WORDS, SHOWN = 90, 14, 14
"""The most characters of a text, the words that are compared, and the letters that are shown of a word."""
LETTERS = string.digits + string.ascii_lowercase
ENCODER = Encoder(CharacterTokenizer(LETTERS + string.ascii_uppercase), LONGEST)
NOTHING, MORE = len(LETTERS), len(LETTERS) + 1
THRESHOLD = 0.7


class RougeL(Widget):
    r"""Compare two sentences as the filter of near-duplicates does, and draw their longest common subsequence.

    Words are runs of the letters a to z and digits, in lower case. With m words in the first text, n in the second and
    LCS words that both have in the same order,

    .. math:: P = \frac{\mathrm{LCS}}{m}, \quad R = \frac{\mathrm{LCS}}{n}, \quad
        F = \frac{2 P R}{P + R} = \frac{2\, \mathrm{LCS}}{m + n}

    Since LCS is at most the number of common words in whatever order, and this number at most the smaller of m and n,
    two bounds on F can be computed without the subsequence. Of several longest subsequences, the one is drawn whose
    words come earliest in the first text. The first 14 words of each text are compared.

    Args:
        first, second: the initial texts, at most 90 characters each.
        caption: one sentence that says what to look for.

    Source: Lin (2004), "ROUGE", section 3; Wang et al. (2022), section 2.2, for the threshold 0.7; GT-46.

    >>> RougeL("Name three kinds of birds.", "Name two kinds of birds, please.")  # doctest: +NORMALIZE_WHITESPACE
    5 and 6 words, 4 of them in the same order: name kinds of birds. ROUGE-L is 0.73, so that at the threshold 0.7 the
    second is a near-duplicate. By the lengths alone it is at most 0.91, by the common words at most 0.73.
    """

    sentence = (
        "{m:.0f} and {n:.0f} words, {lcs:.0f} of them in the same order{lcs||: }[["
        + "".join(f"{{letters[s{k}]}}" for k in range(15))
        + "|| ]]. ROUGE-L is {found[2]:.2f}, so that at the threshold 0.7 the second is {refused|no|a} near-duplicate. "
        "By the lengths alone it is at most {found[0]:.2f}, by the common words at most {found[1]:.2f}."
        "{cut|| Only the first 14 words of each text are compared.}"
    )

    def __init__(self, first: str, second: str, *, caption: str = ""):
        super().__init__(
            caption=caption,
            data={
                "letters": [*LETTERS, "", "…"],
                "bounds": ["from lengths", "from words", "ROUGE-L"],
            },
            first=Text(first, longest=LONGEST, encoder=ENCODER, label="first text"),
            second=Text(second, longest=LONGEST, encoder=ENCODER, label="second text"),
        )

    def compute(self, first_ids, first_n, second_ids, second_n):
        (first, m_all), (second, n_all) = words_of(first_ids, first_n), words_of(second_ids, second_n)
        m_words, n_words = m_all.clamp(max=WORDS), n_all.clamp(max=WORDS)
        at = torch.arange(WORDS)
        same = (first[:, None] == second).all(-1) & (at < m_words)[:, None] & (at < n_words)
        pairs = common_subsequence(same)
        lcs = (pairs[0] < WORDS).sum()
        in_first, in_second = ((side[:, None] == at).any(0) for side in pairs)
        before = ((first[:, None] == first).all(-1) & (at[:, None] > at)).sum(1)  # how often a word stood before
        shared = ((before < same.sum(1)) & (at < m_words)).sum()
        total = (m_words + n_words).clamp(min=1)
        found = 2 * torch.stack((torch.minimum(m_words, n_words), shared, lcs)) / total
        shades = [torch.where(x, 0.45, 0.08) for x in (in_first, in_second)]
        shades = [torch.where(at < n, shade, torch.nan) for n, shade in zip((m_words, n_words), shades, strict=True)]
        drawn = torch.stack((first, torch.full_like(first, NOTHING), second), 1)  # (WORDS, 3, LONGEST): two columns
        spelled = torch.where(in_first[:, None], letters_of(first), torch.nan)
        lines = [torch.where(side < WORDS, 1 - (side + 0.5) / WORDS, torch.nan) for side in pairs]
        return {
            "m": m_words, "n": n_words, "lcs": lcs, "found": found, "refused": 10 * 2 * lcs >= 7 * total,
            "precision": lcs / m_words.clamp(min=1), "recall": lcs / n_words.clamp(min=1),
            "cut": torch.maximum(m_all, n_all) > WORDS,
            "shades": torch.stack((shades[0], torch.full((WORDS,), torch.nan), shades[1]), 1),
            "y_first": lines[0], "y_second": lines[1],
            **{f"c{k}": letters for k, letters in enumerate(letters_of(drawn).unbind(-1))},
            **{f"s{k}": letters for k, letters in enumerate(spelled.unbind(-1))},
        }  # fmt: skip

    def marks(self):
        words = m.plot(
            m.cells("shades", hue="value", text="".join(f"{{letters[c{k}]}}" for k in range(SHOWN + 1))),
            m.arrows([2 / 3] * WORDS, "y_second", x0=[1 / 3] * WORDS, y0="y_first", hue="value", head=False),
            title="The longest common subsequence", hint="lines join its words, and no two of them cross", height=330,
        )  # fmt: skip
        bars = m.plot(
            m.bars("found", across=True, hue="value", text="{value:.2f}"), m.rule(x=THRESHOLD),
            x=m.axis(0, 1.2, ticks=[0, 0.5, 0.7, 1]), y=m.axis(labels="bounds"), height=150,
            title="ROUGE-L and two bounds", hint="dashed: the threshold 0.7",
        )  # fmt: skip
        facts = {
            "words": "{m:.0f} and {n:.0f}", "in the same order": "{lcs:.0f}", "precision": "{precision:.2f}",
            "recall": "{recall:.2f}", "at the threshold 0.7": "{refused|no near-duplicate|near-duplicate}",
        }  # fmt: skip
        cut = m.note("{cut||Only the first %d words of each text are compared.}" % WORDS)  # noqa: UP031
        return ["first", "second", m.facts(**facts), m.row(words, bars), cut]


def words_of(ids: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """The letters of the first words of a text, (WORDS, LONGEST), padded with NOTHING, and how many words it has."""
    at = torch.arange(LONGEST)
    inside = (at < n) & (ids >= 0)
    letters = torch.where(ids < len(LETTERS), ids, ids - 26)  # lower case
    starts = inside & ~torch.cat((torch.zeros(1, dtype=torch.bool), inside[:-1]))
    own = (starts.cumsum(0) - 1 == torch.arange(WORDS)[:, None]) & inside  # which characters each word has
    first, lengths = (own & starts).int().argmax(1), own.sum(1)
    table = letters[(first[:, None] + at).clamp(max=LONGEST - 1)]
    return torch.where(at < lengths[:, None], table, NOTHING), starts.sum()


def letters_of(words: Tensor) -> Tensor:
    """The letters of each word that are shown, (…, SHOWN + 1): where there are more, the last is a sign for them."""
    more = torch.where(words[..., SHOWN] < NOTHING, MORE, NOTHING)
    return torch.cat((words[..., :SHOWN], more[..., None]), -1)


def common_subsequence(same: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of a longest common subsequence, whose words come earliest in the first text, padded with WORDS.

    Args:
        same: whether words of the two texts are equal, (WORDS, WORDS).
    """
    at = torch.arange(WORDS)
    later, none = at >= at[:, None], torch.zeros(1, dtype=torch.int64)
    below, rows = torch.zeros(WORDS + 1, dtype=torch.int64), []
    for i in reversed(range(WORDS)):  # how long a subsequence can be that begins in row i and column j or after them
        here = torch.maximum(below[:-1], below[1:] + same[i])
        below = torch.cat((torch.where(later, here, 0).amax(1), none))
        rows.append(below[:-1])
    lengths, numbers = torch.stack(rows[::-1]), at[:, None] * WORDS + at
    length, pairs = lengths[0, 0], []
    i = j = torch.tensor(-1)
    for k in range(WORDS):
        fits = same & (lengths == length - k) & (at[:, None] > i) & (at > j)
        pair = torch.where(fits, numbers, WORDS * (WORDS + 1)).amin((0, 1))
        i, j = pair // WORDS, pair % WORDS
        pairs.append((i, torch.where(i < WORDS, j, WORDS)))
    firsts, seconds = zip(*pairs, strict=True)
    return torch.stack(firsts), torch.stack(seconds)
