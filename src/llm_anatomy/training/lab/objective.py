"""What a run minimizes: the loss of next-token prediction, summed over the targets of a batch."""

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Bool, Float, Int, Tensor

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The type of matrix products for each precision."""


class NextTokenLoss(nn.Module):
    r"""A model with its loss, in one module, so that both are compiled and distributed together.

    .. math:: L = -\sum_{b,t \,\in\, \mathrm{targets}} \log p_\theta(w_{b,t+1} \mid w_{b,1}, \dots, w_{b,t})

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        precision: that of matrix products; float32 without autocast.

    Source: UCL-03; Micikevicius et al. (2018), "Mixed precision training"; GT-37.

    >>> objective = NextTokenLoss(nn.Embedding(3, 3))
    >>> _ = nn.init.zeros_(objective.model.weight)
    >>> round(objective(torch.tensor([[0, 1, 2]])).item(), 4)  # two targets, ln 3 each
    2.1972
    >>> round(objective(torch.tensor([[0, 1, 2]]), torch.tensor([[False, True]])).item(), 4)
    1.0986
    """

    def __init__(self, model: nn.Module, precision: str = "float32"):
        super().__init__()
        self.model, self.dtype = model, DTYPES[precision]

    def forward(
        self,
        ids: Int[Tensor, "rows n_tokens_and_1"],
        targets: Bool[Tensor, "rows n_tokens"] | None = None,
        documents: Int[Tensor, "rows n_tokens"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the sum of the losses, in nats.

        Args:
            ids: all but the last are the input, and all but the first the targets.
            targets: whether each of the targets counts; by default all do.
            documents: the document of each input token, in which its attention stays; by default it does not.
        """
        with torch.autocast(ids.device.type, self.dtype, enabled=self.dtype != torch.float32):
            logits = self.model(ids[:, :-1], **({} if documents is None else {"documents": documents}))
        labels = ids[:, 1:] if targets is None else ids[:, 1:].masked_fill(~targets, -100)
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="sum")
