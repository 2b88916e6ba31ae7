"""A task with a known answer for a small LSTM: the number of a subject, which the verb needs after other nouns.

In "the key near the doors is red .", the verb agrees with the first noun, whatever the other nouns are. An LSTM that
is trained on such sentences must carry one bit from the subject to the verb. The experiment of chapter 2 looks for the
unit that carries it, and checks it by a change: with the unit's cell set to the other number, the verb should change.
"""

from functools import cache
from random import Random
from typing import cast

import torch
from torch import nn

from llm_anatomy.layers.recurrent import LSTMCell
from llm_anatomy.models.before_transformers import RecurrentLM
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import rows_of
from llm_anatomy.training.trainer import train

NOUNS = ["boat", "book", "cat", "door", "key", "lamp", "road", "tree"]
PREPOSITIONS, ADJECTIVES, VERBS = ["above", "behind", "near"], ["new", "old", "red"], ["is", "are"]
WORDS = ["the", ".", *NOUNS, *(f"{noun}s" for noun in NOUNS), *PREPOSITIONS, *VERBS, *ADJECTIVES]
D_EMBED, D_HIDDEN, N_STEPS = 4, 6, 1500


def sentence(rng: Random, n_attractors: int, plural: bool | None = None, opposite: bool = False) -> list[str]:
    """Draw the words of a sentence.

    Args:
        rng: source of randomness.
        n_attractors: number of nouns between the subject and the verb.
        plural: the number of the subject; drawn if it is not given.
        opposite: whether all other nouns have the other number; otherwise their numbers are drawn.

    Source: Linzen et al. (2016), section 2, who call these nouns attractors; UCL-15.

    >>> " ".join(sentence(Random(1), 1))
    'the books behind the trees are old .'
    """
    plural = rng.random() < 0.5 if plural is None else plural
    words = ["the", rng.choice(NOUNS) + "s" * plural]
    for _ in range(n_attractors):
        other = not plural if opposite else rng.random() < 0.5
        words += [rng.choice(PREPOSITIONS), "the", rng.choice(NOUNS) + "s" * other]
    return [*words, VERBS[plural], rng.choice(ADJECTIVES), "."]


@cache
def training_text(n_sentences: int = 4000) -> Int[Tensor, "tokens"]:
    """Draw sentences with no, one or two other nouns between subject and verb, as ids.

    Args:
        n_sentences: number of sentences.

    Source: Linzen et al. (2016), section 2; UCL-15.

    >>> [WORDS[i] for i in training_text()[:3]]
    ['the', 'road', 'near']
    """
    rng = Random(0)
    return ids([word for _ in range(n_sentences) for word in sentence(rng, rng.randrange(3))])


def ids(words: list[str]) -> Int[Tensor, "words"]:
    """Look up the ids of words.

    Args:
        words: words of ``WORDS``.

    Source: UCL-05.

    >>> ids(["the", "."])
    tensor([0, 1])
    """
    return torch.tensor([WORDS.index(word) for word in words])


def small_lstm(seed: int, n_steps: int = N_STEPS) -> RecurrentLM:
    """Train an LSTM with six units on the sentences.

    Args:
        seed: seed of the weights and the batches.
        n_steps: number of training steps.

    Source: Linzen et al. (2016), section 3; UCL-15.

    >>> small_lstm(0, n_steps=1).config.d_hidden
    6
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RecurrentLM(LSTMCell, len(WORDS), D_EMBED, D_HIDDEN, fused=True)
    for table in (model.embedding.weight, model.unembedding.embedding.weight):
        nn.init.normal_(table, generator=torch.Generator().manual_seed(seed))
    batches = random_windows(training_text(), 32, 16, torch.Generator().manual_seed(seed))
    train(model, batches, n_steps=n_steps, max_lr=3e-2, warmup_steps=n_steps // 10, weight_decay=0.0)
    return model


@torch.no_grad()
def test_sentences(
    n_attractors: int, n_sentences: int = 200
) -> tuple[Int[Tensor, "sentences tokens"], Int[Tensor, "sentences"]]:
    """Draw sentences up to the verb, all of whose other nouns have the other number, and the numbers of the subjects.

    Args:
        n_attractors: number of other nouns.
        n_sentences: number of sentences, half of them with a plural subject.

    Source: Linzen et al. (2016), section 3; UCL-15.

    >>> words, plural = test_sentences(1)
    >>> [WORDS[i] for i in words[1]], int(plural[1])
    (['the', 'books', 'behind', 'the', 'tree'], 1)
    """
    rng, plural = Random(1), torch.arange(n_sentences) % 2
    words = [sentence(rng, n_attractors, bool(number), opposite=True)[:-3] for number in plural]
    return torch.stack([ids(some) for some in words]), plural


@torch.no_grad()
def right_verbs(model: RecurrentLM, n_attractors: int) -> tuple[float, Float[Tensor, "units"]]:
    r"""Measure how often the right verb is more likely than the wrong one, and how often if one cell is exchanged.

    Before the verb, the cell :math:`c` of one unit is exchanged with that of a sentence with the other number, and
    :math:`h = o \odot \tanh(c)` follows it.

    Args:
        model: from :func:`small_lstm`.
        n_attractors: number of other nouns between subject and verb; in training there are at most two.

    Returns:
        The share of the sentences with the right verb, and this share after the exchange of each unit. It is zero if
        the unit decides alone.

    Source: Lakretz et al. (2019), section 3, who switch units off; UCL-15.

    >>> right, after = right_verbs(small_lstm(0, n_steps=1), 1)
    >>> 0 <= right <= 1, after.shape
    (True, torch.Size([6]))
    """
    words, plural = test_sentences(n_attractors)
    _, (h, c) = model.advance(words)

    def right(h: Tensor) -> float:
        logits = model.unembedding(h.transpose(0, 1))[:, 0, ids(VERBS)]  # (sentences, 2)
        return float((logits.argmax(-1) == plural).float().mean())

    others = c.unflatten(1, (-1, 2)).flip(2).flatten(1, 2)  # neighbours have different numbers
    exchanged = h / c.tanh() * others.tanh()
    units = torch.eye(c.shape[-1], dtype=torch.bool)
    return right(h), torch.tensor([right(torch.where(unit, exchanged, h)) for unit in units])


def number_unit(model: RecurrentLM) -> int:
    """Find the unit that carries the number: that whose exchange leaves the fewest verbs right, after two other nouns.

    Args:
        model: from :func:`small_lstm`.

    Source: Lakretz et al. (2019), section 3; UCL-15.

    >>> 0 <= number_unit(small_lstm(0, n_steps=1)) < 6
    True
    """
    return int(right_verbs(model, 2)[1].argmin())


def weights(model: RecurrentLM) -> list[list]:
    """List the weights, as rows of parameter, row, column and value. A row of a table is named by its word.

    Args:
        model: from :func:`small_lstm`.

    Source: UCL-15.

    >>> [row[:3] for row in weights(small_lstm(0, n_steps=1))][:5:4]
    [['embedding', 'the', 0], ['embedding', '.', 0]]
    """
    output = torch.cat((model.unembedding.embedding.weight, cast(Tensor, model.unembedding.bias)[:, None]), 1)
    tables = {"embedding": model.embedding.weight, "unembedding": output}  # the bias is the last column
    rows = [[n, WORDS[i], j, x] for n, weight in tables.items() for _, i, j, x in rows_of([n], weight.detach(), 3)]
    for name, weight in model.recurrent.cells[0].named_parameters():
        rows += rows_of([name], weight.detach().view(len(weight), -1), 3)
    return rows
