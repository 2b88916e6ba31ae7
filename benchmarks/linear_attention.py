"""Linear attention beside PyTorch's fused softmax attention, and the length from which it is faster.

    python benchmarks/linear_attention.py

Both read the same queries, keys and values; the work of the features is counted. They do not compute the same function
(elu + 1 is another kernel, random features estimate the softmax), so we compare cost, not quality. In each
round both run once, in changing order; what is printed is the median of the ratios of the rounds (and their quartiles).
Below 1 is faster than the softmax; within 5 % counts as equal. For short texts the softmax is faster: its square is
small there, and one kernel does all of it, where the features alone take several passes. The causal form crosses later,
since a causal softmax is half the work and causal sums are more: they go block by block.
"""

import torch
import torch.nn.functional as F
from measure import arguments, ratios, row, summary

from llm_anatomy.layers.linear_attention import (
    EluPlusOne,
    PositiveRandomFeatures,
    causal_linear_attention,
    linear_attention,
)

BATCH, HEADS, D_HEAD = 1, 4, 64
LENGTHS = (256, 1024, 4096, 8192)


def crossover(middles):
    """The first length from which no longer one is slower."""
    faster = [n for i, n in enumerate(LENGTHS) if all(m < 0.95 for m in middles[i:])]
    return f"faster from {faster[0]} tokens on" if faster else f"not faster up to {LENGTHS[-1]} tokens"


if __name__ == "__main__":
    given = arguments(__doc__)
    maps = {"elu + 1": EluPlusOne(), "128 random": PositiveRandomFeatures(D_HEAD, 128).to(given.device)}
    print(f"batch {BATCH}, {HEADS} heads, d_head {D_HEAD}, float32")
    print(f"{'features':11} {'form':14} {'pass':8} {'tokens':>6}  {'ratio':>5}  {'quartiles':12} {'softmax (ms)':>10}")
    for name, feature_map in maps.items():
        for causal in (False, True):

            def ours(query, key, value, feature_map=feature_map, causal=causal):
                if causal:
                    return causal_linear_attention(query, key, value, feature_map)[0]
                return linear_attention(query, key, value, feature_map)

            def softmax(query, key, value, causal=causal):
                return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

            for backward in (False, True):
                middles, form = [], "causal" if causal else "bidirectional"
                for n_tokens in LENGTHS:
                    inputs = torch.randn(3, BATCH, HEADS, n_tokens, D_HEAD, device=given.device).unbind()
                    measured = ratios(ours, softmax, inputs, backward, given.rounds)
                    row(f"{name:11} {form:14} {'fwd+bwd' if backward else 'fwd':8} {n_tokens:6}", measured)
                    middles.append(summary(measured)[0])
                print(f"{name:11} {form:14} {'fwd+bwd' if backward else 'fwd':8} {crossover(middles)}", flush=True)
