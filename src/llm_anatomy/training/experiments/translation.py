"""The translation experiment: a Transformer beside an LSTM that squeezes the source into one vector.

    python -m llm_anatomy experiment translation

Models of a few sizes translate from English to Tolva, the invented language of
:mod:`llm_anatomy.training.data.translation`, whose word alignment is known. Sentences have one to three clauses, in
equal parts, in training and in the test. The models see the same batches in the same order, and the learning rate of
each is chosen from ``MAX_LRS`` with a seed of its own. To find out what limits the LSTM, one model has a wider state
and one may attend to all states of the encoder; the same two answers are tried on the task of copying random letters.
The command writes the tables ``translation_tuning``, ``translation_models``, ``translation_scores``,
``translation_lengths``, ``translation_positions``, ``translation_alignment``, ``copy_lengths`` and
``translation_experiment`` of :mod:`llm_anatomy.data`, and stores the Transformer of the first seed beside them.
"""

import hashlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.text_metrics import bleu
from llm_anatomy.evaluation.translation import alignment_error_rate
from llm_anatomy.layers.additive_attention import AdditiveAttention
from llm_anatomy.models.before_transformers import RecurrentEncoderDecoder
from llm_anatomy.models.stored import store, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.translation import Pair, joined, pairs
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs
from llm_anatomy.training.trainer import train

CLAUSES = (1, 2, 3)
N_TRAINING, N_VALIDATION, N_TEST = 4000, 64, 128
"""Number of sentences of each number of clauses."""
TRAINING, HELD_OUT = 0, 1
"""Seeds of the corpus."""
N_STEPS, BATCH_SIZE, WARMUP_STEPS = 1000, 32, 50
MAX_LRS = (5e-3, 1e-2, 2e-2)
TUNING_SEED = 5
WORDS_IN_A_ROW = 5
"""Sentences are grouped by their length, so many lengths in a row."""
PAD, START, STOP = 0, 1, 2
STORED = "translation.safetensors"
COMMAND = "python -m llm_anatomy experiment translation"

N_LETTERS, COPY_LENGTHS = 16, (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
COPY_MODELS = (("lstm", 16), ("lstm", 32), ("lstm", 64), ("lstm_attention", 32), ("transformer", 32))
"""The copy task: a kind of model, and the width of its state."""
COPY_STEPS, COPY_BATCH_SIZE, COPY_MAX_LR = 1000, 32, 2e-2

Examples = tuple[Int[Tensor, "_ _"], Int[Tensor, "_ _"]]
"""Ids of sources, and of targets, which begin with the start token: a row for each sentence, padded on the right."""


# --- The corpus ---


@cache
def sentences(seed: int, n_clauses: int, n: int) -> list[Pair]:
    """Generate sentences of so many clauses.

    Args:
        seed: seed of the corpus: ``TRAINING`` or ``HELD_OUT``.
        n_clauses: number of clauses, which *and* joins.
        n: number of sentences.

    Source: the sentences of :mod:`llm_anatomy.training.data.translation`; UCL-30.

    >>> [len(sentences(HELD_OUT, n_clauses, 1)[0].english) for n_clauses in CLAUSES]
    [8, 14, 28]
    """
    clauses = pairs(seed, first=n_clauses * 1_000_000)
    return [joined([next(clauses) for _ in range(n_clauses)]) for _ in range(n)]


@cache
def vocabulary() -> list[str]:
    """List the words of both languages: padding, the start token, the full stop, English, Tolva.

    Source: Vaswani et al. (2017), section 5.1, who share one vocabulary between two languages; UCL-31.

    >>> vocabulary()[:5], len(vocabulary())
    (['<pad>', '<start>', '.', 'I', 'a'], 433)
    """
    known = [one for n_clauses in CLAUSES for one in sentences(TRAINING, n_clauses, N_TRAINING)]
    sides = [sorted({word for one in known for word in side(one)} - {"."}) for side in (_english, _tolva)]
    return ["<pad>", "<start>", ".", *sides[0], *sides[1]]


def _english(one: Pair) -> tuple[str, ...]:
    return one.english


def _tolva(one: Pair) -> tuple[str, ...]:
    return one.tolva


def as_ids(some: Sequence[Pair], words: Sequence[str]) -> Examples:
    """Turn sentences into ids, padded on the right; a target begins with the start token and ends with its full stop.

    Args:
        some: the sentences.
        words: the vocabulary.

    Source: Vaswani et al. (2017), section 3.1 (shifted right); IITD-44.

    >>> words = ["<pad>", "<start>", ".", "I", "sing", "kantem"]
    >>> source, target = as_ids([Pair(("I", "sing", "."), ("kantem", "."), ())], words)
    >>> source.tolist(), target.tolist()
    ([[3, 4, 2]], [[1, 5, 2]])
    """
    id_of = {word: i for i, word in enumerate(words)}
    return (
        _as_rows([[id_of[word] for word in one.english] for one in some]),
        _as_rows([[START, *(id_of[word] for word in one.tolva)] for one in some]),
    )


def _as_rows(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def _trimmed(ids: Tensor) -> Tensor:
    """Without the columns that hold padding alone."""
    return ids[:, : int((ids != PAD).sum(1).max())]


# --- The models ---


class Translator(nn.Module):
    """A model that reads a source once, and then predicts the target token by token.

    Subclasses define what the decoder sees of the source.

    Source: Cho et al. (2014), section 2.1; UCL-30, UCL-31.

    >>> translator = translator_of("lstm", n_vocab=9)
    >>> translator(torch.tensor([[1, 4]]), torch.tensor([[3, 5, 2]])).shape
    torch.Size([1, 2, 9])
    """

    def encode(self, source: Int[Tensor, "batch source"]) -> Any:
        """Read the source; what is returned is all that the decoder knows of it."""
        raise NotImplementedError

    def decode(self, ids: Int[Tensor, "batch tokens"], memory: Any) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of the target token that follows each token."""
        raise NotImplementedError

    def forward(
        self, ids: Int[Tensor, "batch tokens"], source: Int[Tensor, "batch source"]
    ) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute the logits of the target token that follows each token."""
        return self.decode(ids, self.encode(source))

    def attend(
        self, ids: Int[Tensor, "batch tokens"], source: Int[Tensor, "batch source"]
    ) -> Float[Tensor, "layers batch heads tokens source"]:
        """Compute how much each token of the target attends to each token of the source; a model may lack this."""
        raise NotImplementedError


class TransformerTranslator(Translator):
    """An encoder-decoder Transformer, whose decoder attends to all states of the encoder.

    Args:
        model: the Transformer.

    Source: Vaswani et al. (2017), section 3.1; UCL-31.

    >>> translator = TransformerTranslator(Transformer(small_config(9)))
    >>> translator.attend(torch.tensor([[1, 4]]), torch.tensor([[3, 5, 2]])).shape
    torch.Size([2, 1, 4, 2, 3])
    """

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def encode(self, source):
        return self.model.encode(source, source != PAD)

    def decode(self, ids, memory):
        return self.model(ids, source=memory)

    def attend(self, ids, source):
        _, records = self.model(ids, source=self.encode(source), return_records=True)
        return torch.stack([record.cross_attention_weights for record in records])


class RecurrentTranslator(Translator):
    """Two LSTMs; the decoder knows the last state of the encoder, and nothing else of the source.

    Args:
        n_vocab: size of the vocabulary of both languages.
        d_embed: width of the embeddings.
        d_hidden: width of the states.

    Source: Sutskever et al. (2014), section 2; UCL-30.

    >>> [tuple(part.shape) for part in RecurrentTranslator(9, 3, 4).encode(torch.tensor([[3, 5, 2]]))]
    [(1, 1, 4), (1, 1, 4)]
    """

    def __init__(self, n_vocab: int, d_embed: int, d_hidden: int):
        super().__init__()
        self.model = RecurrentEncoderDecoder(n_vocab, n_vocab, d_embed, d_hidden, fused=True)

    def encode(self, source):
        return self.model.encode(source, source != PAD)

    def decode(self, ids, memory):
        return self.model.advance(ids, memory)[0]


class AttentiveTranslator(RecurrentTranslator):
    """The same two LSTMs, and additive attention from each state of the decoder to all states of the encoder.

    Args:
        n_vocab, d_embed, d_hidden: as in :class:`RecurrentTranslator`.

    Source: Bahdanau et al. (2015), section 3; Luong et al. (2015), section 3.1, where attention follows the LSTM;
    UCL-30, UCL-31.

    >>> AttentiveTranslator(9, 3, 4).attend(torch.tensor([[1, 4]]), torch.tensor([[3, 5, 2]])).shape
    torch.Size([1, 1, 1, 2, 3])
    """

    def __init__(self, n_vocab: int, d_embed: int, d_hidden: int):
        super().__init__(n_vocab, d_embed, d_hidden)
        self.attention = AdditiveAttention(d_hidden, d_hidden)
        self.w_joined = nn.Linear(2 * d_hidden, d_hidden)

    def encode(self, source):
        reverse = source.flip(1)
        states, last = self.model.encoder(self.model.source_embedding(reverse), mask=reverse != PAD)
        return states.flip(1), last, source != PAD

    def decode(self, ids, memory):
        hidden, context, _ = self._attended(ids, memory)
        return self.model.decoder.unembedding(torch.tanh(self.w_joined(torch.cat((hidden, context), -1))))

    def attend(self, ids, source):
        return self._attended(ids, self.encode(source))[2][None, :, None]

    def _attended(self, ids, memory):
        states, last, mask = memory
        hidden, _ = self.model.decoder.recurrent(self.model.decoder.embedding(ids), last)
        return hidden, *self.attention(hidden, states, mask=mask[:, None], return_weights=True)


MODELS = {
    "transformer": lambda n_vocab: TransformerTranslator(Transformer(small_config(n_vocab))),
    "lstm": lambda n_vocab: RecurrentTranslator(n_vocab, d_embed=48, d_hidden=64),
    "lstm_wide": lambda n_vocab: RecurrentTranslator(n_vocab, d_embed=48, d_hidden=128),
    "lstm_attention": lambda n_vocab: AttentiveTranslator(n_vocab, d_embed=48, d_hidden=64),
}
"""How each model is built from the size of the vocabulary."""


def small_config(n_vocab: int, **changes) -> ModelConfig:
    """Config of the small encoder-decoder.

    Args:
        n_vocab: size of the vocabulary of both languages.
        changes: values of other fields.

    Source: Vaswani et al. (2017), section 3, with the norm before each sublayer; UCL-28, UCL-31.

    >>> small_config(9).kind
    'encoder-decoder'
    """
    sizes = dict(d_model=48, n_layers=2, n_heads=4, d_ff=48, n_vocab=n_vocab)
    parts = dict(position="rope", norm="rmsnorm", feedforward="relu", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(dict(kind="encoder-decoder") | sizes | parts | changes)


def translator_of(name: str, n_vocab: int, seed: int = 0) -> Translator:
    r"""Build a model, before training.

    Matrices start from :math:`N(0, 1/d_\mathrm{in})`, embeddings with entries of size 1 after their scale.

    Args:
        name: one of ``MODELS``.
        n_vocab: size of the vocabulary of both languages.
        seed: seed of the weights.

    Raises:
        ValueError: for another name.

    Source: UCL-30, UCL-31.

    >>> type(translator_of("lstm_attention", n_vocab=9)).__name__
    'AttentiveTranslator'
    """
    if name not in MODELS:
        raise ValueError(f"{name=} must be one of {', '.join(MODELS)}")
    with torch.random.fork_rng(devices=[]):
        model = MODELS[name](n_vocab)
    return _initialized(model, seed)


def _initialized(model: Translator, seed: int) -> Translator:
    generator = torch.Generator().manual_seed(seed)
    for path, weight in model.named_parameters():
        if weight.ndim == 2:
            is_table = "unembedding" not in path and path.endswith("embedding.weight")
            tied = isinstance(model, TransformerTranslator)  # whose embeddings are scaled by the root of their width
            std = 1.0 if is_table and not tied else weight.shape[1] ** -0.5
            nn.init.normal_(weight, std=std, generator=generator)
        elif "bias" in path:
            nn.init.zeros_(weight)
    return model


# --- Training and translating ---


def batches(examples: Sequence[Examples], batch_size: int, generator: torch.Generator) -> Iterator[Examples]:
    """Draw batches without end: each from one of the sets of examples, at random, without superfluous padding.

    Args:
        examples: sets of sources and targets, such as one for each number of clauses.
        batch_size: number of sentences in a batch.
        generator: source of the random numbers.

    Source: UCL-30.

    >>> one = torch.tensor([[3, 2, 0]]), torch.tensor([[1, 4, 2]])
    >>> source, target = next(batches([one], 2, torch.Generator().manual_seed(0)))
    >>> source.tolist()
    [[3, 2], [3, 2]]
    """
    while True:
        chosen = int(torch.randint(len(examples), (), generator=generator))
        source, target = examples[chosen]
        rows = torch.randint(len(source), (batch_size,), generator=generator)
        yield _trimmed(source[rows]), _trimmed(target[rows])


def translation_loss(model: nn.Module, batch: Examples) -> Tensor:
    """Compute the mean loss of predicting each target token from the source and the right tokens before it.

    Args:
        model: maps targets and sources to logits.
        batch: sources and targets; padding does not count.

    Source: Sutskever et al. (2014), section 3.2 (teacher forcing); IITD-44.

    >>> batch = torch.tensor([[3, 2]]), torch.tensor([[1, 4, 2]])
    >>> bool(translation_loss(translator_of("lstm", 5), batch) > 0)
    True
    """
    source, target = batch
    logits = model(target[:, :-1], source)
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


def run(name: str, seed: int, n_steps: int = N_STEPS, max_lr: float = MAX_LRS[1]) -> Translator:
    """Train one model of the experiment.

    Args:
        name: one of ``MODELS``.
        seed: seed of the weights and the batches.
        n_steps: number of training steps.
        max_lr: the maximum learning rate.

    Source: UCL-30, UCL-31.

    >>> sum(p.numel() for p in run("transformer", seed=0, n_steps=1).parameters()) < 110_000
    True
    """
    words = vocabulary()
    model = translator_of(name, len(words), seed)
    examples = [as_ids(sentences(TRAINING, n_clauses, N_TRAINING), words) for n_clauses in CLAUSES]
    drawn = batches(examples, BATCH_SIZE, torch.Generator().manual_seed(seed))
    warmup_steps = min(WARMUP_STEPS, n_steps - 1)
    train(model, drawn, batch_loss=translation_loss, n_steps=n_steps, max_lr=max_lr, warmup_steps=warmup_steps)
    return model.eval()


@torch.no_grad()
def translate(
    model: Translator, source: Int[Tensor, "batch source"], max_new_tokens: int
) -> Int[Tensor, "batch tokens"]:
    """Translate by greedy generation: each token is read by the decoder before it chooses the next one.

    Args:
        model: a trained model.
        source: the ids of the sources, padded on the right.
        max_new_tokens: maximal number of tokens of a translation.

    Returns:
        The translations, without the start token; what follows a full stop is padding.

    Source: Vaswani et al. (2017), section 3.1 (auto-regressive); IITD-44, UCL-30.

    >>> translate(translator_of("lstm", n_vocab=9), torch.tensor([[3, 5, 2]]), max_new_tokens=4).shape[0]
    1
    """
    memory, ids = model.encode(source), torch.full((len(source), 1), START)
    done = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_new_tokens):
        chosen = model.decode(ids, memory)[:, -1].argmax(-1).masked_fill(done, PAD)
        ids, done = torch.cat((ids, chosen[:, None]), 1), done | (chosen == STOP)
        if done.all():
            break
    return ids[:, 1:]


# --- What is measured ---


@torch.no_grad()
def measured(model: Translator, some: Sequence[Pair], words: Sequence[str]) -> dict[str, Any]:
    """Measure a model on sentences: its loss, and what it predicts from right tokens and from its own.

    Args:
        model: a trained model.
        some: the sentences.
        words: the vocabulary.

    Returns:
        For each sentence and token of its target: ``losses``, ``forced`` and ``free``, whether the token is right with
        teacher forcing and in free generation, and ``is_word``, False for padding; and the ``translations`` as text.

    Source: IITD-44, UCL-30.

    >>> found = measured(translator_of("lstm", len(vocabulary())), sentences(HELD_OUT, 1, 3), vocabulary())
    >>> found["losses"].shape == found["free"].shape
    True
    """
    source, target = as_ids(some, words)
    wanted = target[:, 1:]
    logits = model(target[:, :-1], source)
    losses = F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
    free = translate(model, source, max_new_tokens=wanted.shape[1] + 4)
    text = [" ".join([words[int(i)] for i in row if i != PAD]) for row in free.tolist()]
    missing = max(0, wanted.shape[1] - free.shape[1])
    free = F.pad(free, (0, missing))[:, : wanted.shape[1]]
    is_right = {"forced": logits.argmax(-1) == wanted, "free": free == wanted}
    return {"losses": losses, "is_word": wanted != PAD, "translations": text} | is_right


def alignment_rates(
    model: Translator, some: Sequence[Pair], words: Sequence[str]
) -> Iterator[tuple[int, int, str, float]]:
    """Compare the cross-attention of each head with the known alignment: its largest weight makes one link for a word.

    Args:
        model: a model that attends to the source.
        some: the sentences.
        words: the vocabulary.

    Yields:
        Layer, head, the step, and the alignment error rate. At the step ``"predicted"``, the decoder is about to
        generate the word; at the step ``"read"``, which follows, the word is its input.

    Source: Och and Ney (2003), section 5.2; Chen et al. (2020), "Accurate word alignment induction from neural machine
    translation", section 3; UCL-31.

    >>> model = translator_of("lstm_attention", len(vocabulary()))
    >>> [step for _, _, step, _ in alignment_rates(model, sentences(HELD_OUT, 1, 3), vocabulary())]
    ['predicted', 'read']
    """
    with torch.no_grad():
        source, target = as_ids(some, words)
        picked = model.attend(target, source).argmax(-1)  # (layers, batch, heads, tokens)
    for layer, of_layer in enumerate(picked.unbind()):
        for head, of_head in enumerate(of_layer.unbind(1)):
            for later, step in enumerate(("predicted", "read")):
                rows = of_head[:, later:].tolist()
                found = [[(row[j], j) for j in range(len(one.tolva))] for row, one in zip(rows, some, strict=True)]
                yield layer, head, step, _error_rate(found, some)


def baseline_rates(some: Sequence[Pair]) -> dict[str, float]:
    """Compute the alignment error rate of two alignments that know nothing of the words.

    Args:
        some: the sentences.

    Returns:
        The rate of the ``diagonal``, which links words at the same relative position, and the expected rate of
        ``uniform``, which links each word of the target to one of the source at random.

    Source: Och and Ney (2003), section 5.2; UCL-31.

    >>> baseline_rates([Pair(("a", "b"), ("x", "y"), ((1, 0), (0, 1)))])
    {'diagonal': 1.0, 'uniform': 0.5}
    """
    diagonal = [[(j * len(one.english) // len(one.tolva), j) for j in range(len(one.tolva))] for one in some]
    n_right = sum((len(one.sure) + len(one.alignment)) / len(one.english) for one in some)
    n_links = sum(len(one.tolva) + len(one.sure) for one in some)
    return {"diagonal": _error_rate(diagonal, some), "uniform": 1 - n_right / n_links}


def _error_rate(found: Iterable[list[tuple[int, int]]], some: Sequence[Pair]) -> float:
    return alignment_error_rate(found, [one.sure for one in some], [one.alignment for one in some])


def attention_of(model: Translator, one: Pair, words: Sequence[str]) -> dict[str, Any]:
    """Compute the cross-attention of one sentence, as the widget of a chapter shows it.

    Args:
        model: a model that attends to the source.
        one: the sentence.
        words: the vocabulary.

    Returns:
        ``source`` and ``target``, the words; ``weights``, of shape (heads of all layers, target words, source words),
        where row t belongs to the prediction of target word t; and ``alignment``, the known links.

    Source: UCL-31, IITD-45.

    >>> model, one = translator_of("transformer", len(vocabulary())), sentences(HELD_OUT, 1, 1)[0]
    >>> attention_of(model, one, vocabulary())["weights"].shape == (8, len(one.tolva), len(one.english))
    True
    """
    with torch.no_grad():
        source, target = as_ids([one], words)
        weights = model.attend(target[:, :-1], source)[:, 0].flatten(0, 1)
    known = {"source": list(one.english), "target": list(one.tolva), "alignment": list(one.alignment)}
    return known | {"weights": weights}


# --- The copy task ---


def copy_examples(n: int, n_tokens: int, generator: torch.Generator) -> Examples:
    """Draw random letters, which are their own translation.

    Args:
        n: number of texts.
        n_tokens: number of letters of each.
        generator: source of the random numbers.

    Source: UCL-30.

    >>> source, target = copy_examples(3, 5, torch.Generator().manual_seed(0))
    >>> torch.equal(source, target[:, 1:]), target[:, 0].tolist()
    (True, [1, 1, 1])
    """
    letters = torch.randint(STOP, STOP + N_LETTERS, (n, n_tokens), generator=generator)
    return letters, F.pad(letters, (1, 0), value=START)


def copy_run(kind: str, d_hidden: int, seed: int, n_steps: int = COPY_STEPS) -> Translator:
    """Train one model to copy texts of 1 to 20 letters.

    Args:
        kind: ``"lstm"``, ``"lstm_attention"``, or ``"transformer"``, which has one layer with one head.
        d_hidden: width of the state, or of the Transformer.
        seed: seed of the weights and the texts.
        n_steps: number of training steps.

    Source: UCL-30.

    >>> copy_run("lstm", 4, seed=0, n_steps=1).training
    False
    """
    n_vocab = STOP + N_LETTERS
    with torch.random.fork_rng(devices=[]):
        if kind == "transformer":
            sizes = dict(d_model=d_hidden, n_layers=1, n_heads=1, d_ff=d_hidden, position="sinusoidal")
            model: Translator = TransformerTranslator(Transformer(small_config(n_vocab, **sizes)))
        else:
            make = {"lstm": RecurrentTranslator, "lstm_attention": AttentiveTranslator}[kind]
            model = make(n_vocab, N_LETTERS, d_hidden)
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Iterator[Examples]:
        while True:
            n_tokens = int(torch.randint(1, COPY_LENGTHS[-1] + 1, (), generator=generator))
            yield copy_examples(COPY_BATCH_SIZE, n_tokens, generator)

    warmup_steps = min(WARMUP_STEPS, n_steps - 1)
    train(
        _initialized(model, seed),
        drawn(),
        batch_loss=translation_loss,
        n_steps=n_steps,
        max_lr=COPY_MAX_LR,
        warmup_steps=warmup_steps,
    )
    return model.eval()


@torch.no_grad()
def copied(model: Translator, n_tokens: int, n: int = 256) -> tuple[float, float]:
    """Measure how well a model copies texts of one length: the share of right letters, and of texts without an error.

    Args:
        model: a trained model, which generates freely.
        n_tokens: number of letters.
        n: number of texts.

    Source: UCL-30.

    >>> copied(copy_run("lstm", 4, seed=0, n_steps=1), 5)[1]
    0.0
    """
    source, _ = copy_examples(n, n_tokens, torch.Generator().manual_seed(1_000_000 + n_tokens))
    memory, ids = model.encode(source), torch.full((n, 1), START)
    for _ in range(n_tokens):
        ids = torch.cat((ids, model.decode(ids, memory)[:, -1:].argmax(-1)), 1)
    right = ids[:, 1:] == source
    return right.float().mean().item(), right.all(1).float().mean().item()


# --- The experiment ---

COLUMNS = {
    "translation_tuning": ["model", "max_lr", "loss"],
    "translation_models": ["model", "seed", "parameters", "max_lr", "cpu_seconds"],
    "translation_scores": ["model", "seed", "loss", "bleu", "exact", "forced", "free"],
    "translation_lengths": ["model", "seed", "n_words", "n_sentences", "loss", "exact", "forced", "free"],
    "translation_positions": ["model", "seed", "position", "n_tokens", "forced", "free"],
    "translation_alignment": ["model", "seed", "layer", "head", "step", "error_rate"],
    "copy_lengths": ["model", "d_hidden", "seed", "n_tokens", "accuracy", "exact"],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(3), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment, write its tables, and store the Transformer of the first seed.

    Args:
        out: folder of the tables and of ``translation.safetensors``; it is created if it does not exist.
        seeds: one model is trained for each of ``MODELS`` and seed.
        n_steps: number of training steps of each model that translates.
        n_workers: number of processes, each with one thread. It does not change the tables but for the seconds.

    Raises:
        ValueError: if ``n_workers`` is below 1, or sacrebleu is not installed.

    Source: UCL-30, UCL-31, IITD-44, IITD-45.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    1000
    """
    bleu(["."], ["."])  # which is refused without its package, before minutes are spent
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        collect(_tuning, [(name, max_lr, n_steps // 3) for name in MODELS for max_lr in MAX_LRS], "learning rates")
        best = best_max_lrs(tables.rows["translation_tuning"])
        path = {seeds[0]: out / STORED}
        jobs = [(name, seed, n_steps, best[name], path.get(seed)) for seed in seeds for name in MODELS]
        collect(_trained, jobs, "models")
        copies = [(*model, seed, COPY_STEPS) for seed in seeds for model in COPY_MODELS]
        collect(_copying, copies, "copying")
    tables.rows["translation_alignment"] += [
        [name, None, None, None, None, f"{rate:.4f}"] for name, rate in baseline_rates(held_out()).items()
    ]
    name = "translation_alignment"
    tables.write(name, COLUMNS[name], tables.rows[name])
    tables.write_settings("translation_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def held_out(*, validation: bool = False) -> list[Pair]:
    """List the held-out sentences of all numbers of clauses: those of the test, or those that tune learning rates.

    Args:
        validation: whether to list those that learning rates are chosen on.

    Source: UCL-30.

    >>> len(held_out()), len(held_out(validation=True))
    (384, 192)
    """
    chosen = slice(N_VALIDATION) if validation else slice(N_VALIDATION, None)
    return [one for n_clauses in CLAUSES for one in sentences(HELD_OUT, n_clauses, N_VALIDATION + N_TEST)[chosen]]


def _tuning(job: tuple[str, float, int]) -> Rows:
    name, max_lr, n_steps = job
    try:
        model = run(name, TUNING_SEED, n_steps, max_lr)
        with torch.no_grad():
            loss = float(translation_loss(model, as_ids(held_out(validation=True), vocabulary())))
    except FloatingPointError:  # the learning rate was too high
        loss = math.inf
    return {"translation_tuning": [[name, max_lr, f"{loss:.4f}"]]}


def _trained(job: tuple[str, int, int, float, Path | None]) -> Rows:
    """Train and measure one model, and store the first Transformer."""
    name, seed, n_steps, max_lr, path = job
    began = time.process_time()
    model, words = run(name, seed, n_steps, max_lr), vocabulary()
    seconds = time.process_time() - began
    rows = _measurements(name, seed, model)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    rows["translation_models"] = [[name, seed, n_parameters, max_lr, round(seconds)]]
    if isinstance(model, TransformerTranslator):
        rows["translation_alignment"] += _alignments("untrained", seed, translator_of(name, len(words), seed))
        if path is not None:
            about = dict(command=COMMAND, seed=seed, n_steps=n_steps, max_lr=max_lr, words=words)
            store(model.model, path, **about, training_sha256=training_sha256())
            whole, _ = stored_translator(path)
            for table, more in _measurements("stored", seed, whole).items():
                rows[table] += more if table == "translation_scores" else []
    return rows


def stored_translator(name_or_path: str | Path = "translation") -> tuple[TransformerTranslator, dict[str, Any]]:
    """Load the Transformer that the experiment has stored.

    Args:
        name_or_path: that of the package by default, or the path of another.

    Returns:
        The model and what was stored with it: its vocabulary ``words``, and how it was trained.

    Raises:
        ValueError: as :func:`~llm_anatomy.models.stored.stored`.

    Source: UCL-31, IITD-45.

    >>> model, about = stored_translator()
    >>> about["seed"]
    0
    """
    model, about = stored(name_or_path)
    assert isinstance(model, Transformer)
    return TransformerTranslator(model).eval(), about


def training_sha256() -> str:
    """The SHA-256 of the training text: a line for each sentence, in English and in Tolva.

    Source: UCL-31.

    >>> len(training_sha256())
    64
    """
    some = (one for n_clauses in CLAUSES for one in sentences(TRAINING, n_clauses, N_TRAINING))
    text = "".join(f"{' '.join(one.english)}\t{' '.join(one.tolva)}\n" for one in some)
    return hashlib.sha256(text.encode()).hexdigest()


def _measurements(name: str, seed: int, model: Translator) -> Rows:
    """The rows of one model, over all test sentences, by their length, by position, and of each head that attends."""
    some, words = held_out(), vocabulary()
    found = measured(model, some, words)
    losses, forced, free, is_word = (found[key] for key in ("losses", "forced", "free", "is_word"))
    exact = (free | ~is_word).all(1)
    n_english = torch.tensor([len(one.english) for one in some])

    def shares(chosen: Tensor) -> list[str]:
        which = is_word & chosen[:, None]
        values = losses[which].mean(), exact[chosen].float().mean(), forced[which].float().mean()
        return [f"{float(value):.4f}" for value in (*values, free[which].float().mean())]

    loss, *rest = shares(torch.ones_like(exact))
    score = bleu(found["translations"], [" ".join(one.tolva) for one in some])
    rows: Rows = {"translation_scores": [[name, seed, loss, f"{score:.2f}", *rest]]}
    rows["translation_lengths"], rows["translation_positions"] = [], []
    for low in range(0, int(n_english.max()) + 1, WORDS_IN_A_ROW):
        chosen = (n_english >= low) & (n_english < low + WORDS_IN_A_ROW)
        if chosen.any():
            rows["translation_lengths"].append([name, seed, low, int(chosen.sum()), *shares(chosen)])
    for low in range(0, is_word.shape[1], WORDS_IN_A_ROW):
        which = is_word.clone()
        which[:, :low] = which[:, low + WORDS_IN_A_ROW :] = False
        by_position = [f"{float(right[which].float().mean()):.4f}" for right in (forced, free)]
        rows["translation_positions"].append([name, seed, low, int(which.sum()), *by_position])
    rows["translation_alignment"] = [] if type(model) is RecurrentTranslator else _alignments(name, seed, model)
    return rows


def _alignments(name: str, seed: int, model: Translator) -> list[list]:
    rates = alignment_rates(model, held_out(), vocabulary())
    return [[name, seed, layer, head, step, f"{rate:.4f}"] for layer, head, step, rate in rates]


def _copying(job: tuple[str, int, int, int]) -> Rows:
    kind, d_hidden, seed, n_steps = job
    model = copy_run(kind, d_hidden, seed, n_steps)
    found = ((n_tokens, *copied(model, n_tokens)) for n_tokens in COPY_LENGTHS)
    return {"copy_lengths": [[kind, d_hidden, seed, n, f"{share:.4f}", f"{exact:.4f}"] for n, share, exact in found]}


def _settings(n_steps: int) -> list[list]:
    config = vars(small_config(len(vocabulary())))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "position", "norm", "feedforward", "tie_embeddings")
    training = [one for n_clauses in CLAUSES for one in sentences(TRAINING, n_clauses, N_TRAINING)]
    known = {one.english for one in training}
    return [
        ["command", COMMAND],
        *([field, config[field]] for field in shown),
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["tuning_seed", TUNING_SEED],
        ["tuning_steps", n_steps // 3],
        ["training_sentences", len(training)],
        ["english_tokens", sum(len(one.english) for one in training)],
        ["test_sentences", len(held_out())],
        ["test_sentences_seen", sum(one.english in known for one in held_out())],
        ["copy_letters", N_LETTERS],
        ["copy_steps", COPY_STEPS],
        ["copy_batch_size", COPY_BATCH_SIZE],
        ["copy_max_lr", COPY_MAX_LR],
    ]
