r"""The operations (FLOPs) of a modification's forward pass, and their ratio to those of the baseline.

Operations are counted while the model runs, by ``torch.utils.flop_counter.FlopCounterMode``: matrix products and
convolutions, two for each multiplication with its addition. On PyTorch's meta device the model has sizes and no
numbers, so that the count for T5-base takes seconds.

The paper's table gives *Ops* without saying what was counted. The unmodified model tells. T5's batch has 128 pairs of
512 source and 114 target tokens; its forward pass takes 11.07 trillion multiplications with their additions, the
table's 11.1, if each lookup in a table is counted as the product of a one-hot vector with the whole table, which is how
the authors' library computes it. So counted, most rows agree with the table to 2 per cent, factorized embeddings (9.4,
9.1) and product-key memory (387.0, of which 376 are lookups; the table has 386.6) among them. A large part of the
column's differences is thus a property of that library. Three kinds of rows do not agree:

- mixtures of experts, 11.1 and 11.3 in place of 11.7: there, tokens go to the experts and back by products with one-hot
  matrices, which are another 0.5 to 0.7;
- the Funnel Transformer, 7.8 in place of 1.9, which is a quarter of it, as if a quarter of the pairs had been counted.
  No encoder could be short enough for 1.9, since the decoder and the lookups of tokens alone take 3.8;
- random synthesizers, 23.9 and 25.9 in place of 10.1 and 12.0: here the scores, too, are looked up. Without these
  lookups they have 10.1 and 12.0.

``PAPER_COUNT`` holds these settings, with half the pairs, since an addition counts by itself here.
"""

import math
from collections.abc import Iterable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import Modification, target_log_probs

PAPER_COUNT = dict(batch=64, n_source=512, n_target=114, one_hot_lookups=True)
"""The settings with which the baseline as large as T5-base has the operations of the paper's table."""


def forward_flops(
    modification: Modification,
    config: ModelConfig,
    batch: int,
    n_source: int,
    n_target: int,
    *,
    one_hot_lookups: bool = False,
    device: str = "meta",
) -> int:
    """Count the operations of one forward pass as in training, from the ids to the probabilities of the targets.

    Args:
        modification: the row of the table.
        config: of the baseline, in any size.
        batch: number of pairs of source and target.
        n_source, n_target: number of tokens of each.
        one_hot_lookups: whether a lookup in a table counts as a product with the whole table, or as nothing.
        device: ``"meta"``, or another for a model whose operations depend on numbers, such as that with an adaptive
            softmax: there the tokens are drawn at random.

    Raises:
        ValueError: for sizes below one.

    Source: Narang et al. (2021), table 1, column *Ops*; GT-19.

    >>> from llm_anatomy.models.modifications.base import T5_BASE, baseline
    >>> flops = forward_flops(MODIFICATIONS["baseline"], baseline(**T5_BASE), **PAPER_COUNT)
    >>> f"{flops / 1e12:.1f} trillion"
    '11.1 trillion'
    """
    _check_at_least_one(batch=batch, n_source=n_source, n_target=n_target)
    with torch.device(device):
        model = modification.build(config)
        source, target = (torch.randint(config.n_vocab, (batch, n)) for n in (n_source, n_target))
    counter = FlopCounterMode(display=False, custom_mapping=_LOOKUPS if one_hot_lookups else {})
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:  # the counter does not know the CPU's fused kernel
        target_log_probs(model, source, target, target)
    return counter.get_total_flops()


def flops_ratios(
    modifications: Iterable[Modification], config: ModelConfig, batch: int, n_source: int, n_target: int, **options
) -> dict[str, float]:
    """Divide the operations of each modification by those of the baseline.

    Args:
        modifications: the rows of the table.
        config, batch, n_source, n_target: as in :func:`forward_flops`.
        options: ``one_hot_lookups`` and ``device``, likewise.

    Source: Narang et al. (2021), table 1, column *Ops*; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> ratios = flops_ratios([MODIFICATIONS["funnel_transformer"]], baseline(n_vocab=60), 16, 40, 20)
    >>> round(ratios["funnel_transformer"], 1)
    0.7
    """
    modifications = list(modifications)

    def count(modification: Modification) -> int:
        return forward_flops(modification, config, batch, n_source, n_target, **options)

    of_baseline = count(MODIFICATIONS["baseline"])
    return {modification.name: count(modification) / of_baseline for modification in modifications}


def _lookup(table: torch.Size, indices: torch.Size, *_, **__) -> int:
    """The product of one-hot vectors, one for each index, with a table."""
    return 2 * math.prod(indices) * math.prod(table)


_LOOKUPS = {
    operation: _lookup
    for operation in (
        torch.ops.aten.embedding,
        torch.ops.aten._embedding_bag,
        torch.ops.aten._embedding_bag_forward_only,
    )
}
