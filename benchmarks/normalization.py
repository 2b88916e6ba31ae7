"""Norms beside PyTorch's and Hugging Face's of the same weights.

    python benchmarks/normalization.py

What is printed is the median of the ratios of the rounds and their quartiles, ours over the peer's: below 1 is faster.
The goal is 1.0, and within 5 % counts as equal. Tokens are taken in one by one (decoding), short and long.

RMSNorm of a handful of tokens on a CPU misses the goal by a few microseconds: there calling the operators costs more
than their arithmetic, and ours are one or two more in number. A single token takes PyTorch's form for that reason.
"""

import warnings

import torch
from measure import arguments, ratios, row
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from llm_anatomy.layers.normalization import BatchNorm, LayerNorm, RMSNorm, UnitOffsetRMSNorm

GOAL = 1.0
SIZES = [(1, 1, 512), (8, 1, 512), (8, 128, 512), (1, 2048, 2048)]  # batch, tokens, width
PAIRS = [
    ("LayerNorm", LayerNorm, "torch.nn.LayerNorm", nn.LayerNorm),
    ("RMSNorm", RMSNorm, "torch.nn.RMSNorm", nn.RMSNorm),
    ("RMSNorm", RMSNorm, "LlamaRMSNorm", LlamaRMSNorm),
    ("RMSNorm", RMSNorm, "T5LayerNorm", T5LayerNorm),
    ("UnitOffsetRMSNorm", UnitOffsetRMSNorm, "GemmaRMSNorm", GemmaRMSNorm),
    ("BatchNorm", BatchNorm, "torch.nn.BatchNorm1d", nn.BatchNorm1d),
]


def twins(ours, theirs, width, dtype, device):
    """Both norms with the same random weights and the same eps."""
    ours, theirs = (make(width, eps=1e-5).to(device, dtype) for make in (ours, theirs))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    theirs.load_state_dict(ours.state_dict(), strict=False)  # BatchNorm1d counts batches too
    return ours, theirs


def main(rounds, device):
    print(f"{'ours':18} {'peer':21} {'dtype':9} {'batch, tokens, width':21} {'pass':8}  ratio  quartiles     peer (ms)")
    for our_name, our_class, peer_name, peer_class in PAIRS:
        for dtype in (torch.float32, torch.bfloat16):
            for batch, tokens, width in SIZES:
                ours, theirs = twins(our_class, peer_class, width, dtype, device)
                x = torch.randn(batch, tokens, width, device=device).to(dtype)
                if our_class is BatchNorm:
                    if batch * tokens < 2:
                        continue  # neither takes a single token in training
                    x = x.flatten(0, 1)  # the layout that both take without moving an axis
                tolerance = 1e-4 if dtype == torch.float32 else 0.05
                torch.testing.assert_close(ours(x), theirs(x), rtol=tolerance, atol=tolerance)
                for backward in (False, True):
                    label = (
                        f"{our_name:18} {peer_name:21} {str(dtype)[6:]:9} {str((batch, tokens, width)):21} "
                        f"{'fwd+bwd' if backward else 'fwd':8}"
                    )
                    row(label, ratios(ours, theirs, [x], backward, rounds), GOAL)


if __name__ == "__main__":
    given = arguments(__doc__)
    warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
    main(given.rounds, given.device)
