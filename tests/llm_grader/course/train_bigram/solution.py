import torch
from torch.nn.functional import cross_entropy

from llm_anatomy.shapes import Int, Tensor


def train_bigram(pairs: Int[Tensor, "n_pairs 2"], n_vocab: int) -> dict[str, Tensor]:
    """A trained table of logits, by the name of logits."""
    table = torch.zeros(n_vocab, n_vocab, requires_grad=True)
    optimizer = torch.optim.Adam([table], lr=0.1)
    for _ in range(200):
        loss = cross_entropy(table[pairs[:, 0]], pairs[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"logits": table.detach()}
