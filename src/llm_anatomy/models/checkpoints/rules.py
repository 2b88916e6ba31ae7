"""Rules that convert the tensors of a checkpoint to ours and back: names with placeholders, and lossless changes.

Shapes: ``out``, ``in`` (a weight matrix is (out, in), as in ``torch.nn.Linear``).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange

from llm_anatomy.shapes import Tensor

PLACEHOLDERS = {"layer": r"\d+", "kind": "weight|bias", "any": ".+"}
"""What placeholders match. ``{expert}`` occurs in Hugging Face's names only, and counts all experts."""


class Change:
    """A change of tensors from one layout to the other. ``to_hf`` is the exact inverse of ``from_hf``.

    Source: the layouts of Hugging Face's models; GT-43.

    >>> Change().from_hf(torch.ones(2))  # this one changes names only
    (tensor([1., 1.]),)
    """

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        """Convert Hugging Face's tensors to ours."""
        return hf

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        """Convert our tensors to Hugging Face's."""
        return ours


Same = Change


class Transpose(Change):
    """Transpose a matrix that is stored as (in, out); vectors stay as they are.

    Source: Radford et al. (2019), whose released code multiplies rows by weights of shape (in, out).

    >>> [tuple(t.shape) for t in Transpose().from_hf(torch.ones(2, 3))], Transpose().from_hf(torch.ones(2))[0].shape
    ([(3, 2)], torch.Size([2]))
    """

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.T if tensor.ndim == 2 else tensor for tensor in hf)

    to_hf = from_hf


@dataclass(frozen=True)
class Split(Change):
    """Split a tensor that holds several parts one after the other, along its first axis.

    Args:
        sizes: number of rows of each part, within one group.
        n_groups: how often the sequence of parts is repeated: 1 for all queries, then all keys, then all values; the
            number of heads if the queries, keys and values of each head are adjacent.

    Source: fused projections in the code of GPT-2 (one group) and of GPT-NeoX and BLOOM (a group a head); IITD-26.

    >>> rows = torch.arange(6)
    >>> Split((1, 2), n_groups=2).from_hf(rows)
    (tensor([0, 3]), tensor([1, 2, 4, 5]))
    >>> Split((2, 4)).from_hf(rows)
    (tensor([0, 1]), tensor([2, 3, 4, 5]))
    """

    sizes: tuple[int, ...]
    n_groups: int = 1

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        (whole,) = hf
        groups = rearrange(whole, "(groups rows) ... -> groups rows ...", groups=self.n_groups)
        return tuple(rearrange(part, "groups rows ... -> (groups rows) ...") for part in groups.split(self.sizes, 1))

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        parts = [rearrange(part, "(groups rows) ... -> groups rows ...", groups=self.n_groups) for part in ours]
        return (rearrange(torch.cat(parts, 1), "groups rows ... -> (groups rows) ..."),)


@dataclass(frozen=True)
class Reversed(Change):
    """The inverse of a change.

    Args:
        change: the change to invert. ``Reversed(Split(…))`` concatenates tensors that a checkpoint keeps apart.

    Source: as :class:`Split`.

    >>> Reversed(Split((1, 2))).from_hf(torch.tensor([7]), torch.tensor([8, 9]))
    (tensor([7, 8, 9]),)
    """

    change: Change

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        return self.change.to_hf(*hf)

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        return self.change.from_hf(*ours)


class Then(Change):
    """Several changes in sequence; ``to_hf`` inverts them in the opposite order.

    Args:
        changes: in the order of ``from_hf``.

    Source: GPT-2's fused projection, which is transposed too.

    >>> [tuple(t.shape) for t in Then(Transpose(), Split((1, 2))).from_hf(torch.ones(5, 3))]
    [(1, 5), (2, 5)]
    """

    def __init__(self, *changes: Change):
        self.changes = changes

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        for change in self.changes:
            hf = change.from_hf(*hf)
        return hf

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        for change in reversed(self.changes):
            ours = change.to_hf(*ours)
        return ours


@dataclass(frozen=True)
class Stacked(Change):
    """Stack the tensors of single experts along a new first axis.

    Args:
        n_experts: number of experts; Hugging Face's tensors come expert by expert.
        change: of the tensors of one expert.

    Source: the layout of Mixtral's released weights; GT-19.

    >>> stacked = Stacked(2, Reversed(Split((1, 1))))
    >>> stacked.from_hf(*torch.arange(4).split(1))
    (tensor([[0, 1],
            [2, 3]]),)
    """

    n_experts: int
    change: Change = Same()

    def from_hf(self, *hf: Tensor) -> tuple[Tensor, ...]:
        each = len(hf) // self.n_experts
        of_experts = [self.change.from_hf(*hf[i : i + each]) for i in range(0, len(hf), each)]
        return tuple(torch.stack(tensors) for tensors in zip(*of_experts, strict=True))

    def to_hf(self, *ours: Tensor) -> tuple[Tensor, ...]:
        of_experts = zip(*(tensor.unbind(0) for tensor in ours), strict=True)
        return tuple(hf for tensors in of_experts for hf in self.change.to_hf(*tensors))


# --- Rules, and their application to a model ---


@dataclass(frozen=True)
class Rule:
    """Which tensors of ours correspond to which of a checkpoint.

    Args:
        hf: one or several names, with placeholders ``{layer}``, ``{kind}`` (weight or bias) and ``{expert}``.
        ours: one or several of our names, without ``{expert}``.
        change: from Hugging Face's tensors to ours.

    Source: the layouts of Hugging Face's models.

    >>> Rule("h.{layer}.mlp.{kind}", "stack.blocks.{layer}.feedforward.{kind}").change.__class__.__name__
    'Change'
    """

    hf: str | tuple[str, ...]
    ours: str | tuple[str, ...]
    change: Change = Same()

    def __post_init__(self):
        for field in ("hf", "ours"):
            if isinstance(getattr(self, field), str):
                object.__setattr__(self, field, (getattr(self, field),))


@dataclass(frozen=True)
class Move:
    """A rule with its placeholders filled in.

    Args:
        hf, ours, change: as in :class:`Rule`.

    Source: as :class:`Rule`.

    >>> Move(("wte.weight",), ("embedding.weight",), Same()).ours
    ('embedding.weight',)
    """

    hf: tuple[str, ...]
    ours: tuple[str, ...]
    change: Change


def moves(rules: Sequence[Rule], ours: Iterable[str], n_experts: int = 0) -> list[Move]:
    """Apply rules to a model with tensors of these names; rules that match none of them have no effect.

    Args:
        rules: of the family.
        ours: names of all tensors of our model, each of which must match exactly one rule.
        n_experts: number of experts that ``{expert}`` counts.

    Raises:
        LookupError: for a tensor with no rule or with two, which is a mistake in the table of the family.

    Source: as :class:`Rule`.

    >>> moves([Rule("h.{layer}.fc.{kind}", "blocks.{layer}.w_up.{kind}")], ["blocks.0.w_up.bias"])[0].hf
    ('h.0.fc.bias',)
    """
    ours = list(ours)
    found = [move for rule in rules for move in _filled(rule, ours, n_experts)]
    claimed = Counter(name for move in found for name in move.ours)
    for name in ours:
        if claimed[name] != 1:
            raise LookupError(f"{name} has {claimed[name]} rules; it must have one")
    return found


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with placeholders.

    Args:
        pattern: a name with placeholders.
        name: of a tensor.

    Source: as :class:`Rule`.

    >>> matches("h.{layer}.attn.bias", "h.11.attn.bias"), matches("h.{layer}.attn.bias", "h.x.attn.bias")
    (True, False)
    """
    return _regex(pattern).fullmatch(name) is not None


def _filled(rule: Rule, ours: list[str], n_experts: int) -> Iterator[Move]:
    first = _regex(rule.ours[0])
    for name in ours:
        match = first.fullmatch(name)
        if match is None:
            continue
        found = match.groupdict()
        experts = range(n_experts) if "{expert}" in rule.hf[0] else [None]
        hf = tuple(pattern.format(**found, expert=expert) for expert in experts for pattern in rule.hf)
        yield Move(hf, tuple(pattern.format(**found) for pattern in rule.ours), rule.change)


def _regex(pattern: str) -> re.Pattern:
    parts = re.split(r"\{(\w+)\}", pattern)
    return re.compile("".join(f"(?P<{p}>{PLACEHOLDERS[p]})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))
