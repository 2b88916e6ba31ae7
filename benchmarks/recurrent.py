"""Recurrent cells beside PyTorch's networks, the parallel scan beside the sequential one, Mamba's block beside HF's.

    python benchmarks/recurrent.py

The cells are written to be read, one step of Python a token, so no goal is set for them: the table says how far they
are from PyTorch's kernel. The fused form is that kernel on the same parameters, and so is the goal of 1. Parallel over
sequential shall be below 1 from 256 tokens on. The last ratio is of one block, parallel scan, over Hugging Face's
``MambaMixer`` on its slow path (plain PyTorch). Below 1 is faster than the peer; within 5 % counts as equal.
"""

import torch
from measure import arguments, ratios, row
from torch import nn
from transformers import MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer

from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell, Recurrent
from llm_anatomy.layers.state_space import MambaBlock, selective_scan_parallel, selective_scan_sequential

PAIRS = [(ElmanCell, nn.RNN), (LSTMCell, nn.LSTM), (GRUCell, nn.GRU)]
# batch, tokens, d_input = d_hidden, n_layers
NETWORKS = [(8, 32, 64, 1), (8, 128, 192, 2)]
# batch, d_inner, d_state: a model of a lesson, and the width of a small real one
SCANS = [(2, 128, 16), (4, 512, 16)]
HEADER = f"{'':44} {'ratio':>6}  {'quartiles':12} {'peer (ms)':>10}"


def check(ours, peer, inputs):
    torch.testing.assert_close(ours(*inputs), peer(*inputs), rtol=1e-3, atol=1e-3)


def networks(rounds, device):
    print(f"\nOver PyTorch's network\n{HEADER}")
    for cell, cls in PAIRS:
        for batch, n_tokens, width, n_layers in NETWORKS:
            theirs = cls(width, width, n_layers, batch_first=True).to(device)
            weights = {name: p.detach() for name, p in theirs.named_parameters()}
            x = torch.randn(batch, n_tokens, width, device=device)
            for fused, goal in ((False, None), (True, 1.0)):
                ours = Recurrent(cell, width, width, n_layers, fused=fused).to(device)
                ours.cells.load_state_dict(
                    {
                        f"{name[-1]}.{name[:-3]}": tensor for name, tensor in weights.items()
                    }  # weight_ih_l0 -> 0.weight_ih
                )
                runs = [lambda x, module=module: module(x)[0] for module in (ours, theirs)]
                check(*runs, [x])
                for backward in (False, True):
                    label = (
                        f"{cls.__name__:5}{'fused' if fused else 'cells':6}{(batch, n_tokens, width, n_layers)!s:23}"
                    )
                    measured = ratios(*runs, [x], backward, rounds)
                    row(f"{label}{'fwd+bwd' if backward else 'fwd':10}", measured, goal)


def scans(rounds, device):
    print(f"\nParallel scan over sequential\n{HEADER}")
    for batch, d_inner, d_state in SCANS:
        for n_tokens in (64, 256, 1024):
            x, B, C = (torch.randn(batch, n_tokens, d, device=device) for d in (d_inner, d_state, d_state))
            delta = torch.rand(batch, n_tokens, d_inner, device=device) * 0.1
            A = -torch.arange(1.0, d_state + 1, device=device).repeat(d_inner, 1)
            runs = [
                lambda *given, scan=scan: scan(*given)[0]
                for scan in (selective_scan_parallel, selective_scan_sequential)
            ]
            check(*runs, [x, delta, A, B, C])
            for backward in (False, True):
                label = f"{(batch, n_tokens, d_inner, d_state)!s:34}{'fwd+bwd' if backward else 'fwd':10}"
                goal = 1.0 if n_tokens >= 256 else None
                row(label, ratios(*runs, [x, delta, A, B, C], backward, rounds), goal)


def blocks(rounds, device):
    print(f"\nMamba's block over Hugging Face's slow path\n{HEADER}")
    for batch, d_model, n_tokens in [(2, 64, 64), (2, 64, 256), (2, 64, 1024)]:
        theirs = MambaMixer(MambaConfig(hidden_size=d_model, num_hidden_layers=1), layer_idx=0).to(device).eval()
        ours = MambaBlock(d_model).to(device)
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(batch, n_tokens, d_model, device=device)
        runs = [lambda x, module=ours: module(x)[0], theirs]
        check(*runs, [x])
        for backward in (False, True):
            label = f"{(batch, n_tokens, d_model)!s:34}{'fwd+bwd' if backward else 'fwd':10}"
            row(label, ratios(*runs, [x], backward, rounds), 1.0)


if __name__ == "__main__":
    given = arguments(__doc__)
    networks(given.rounds, given.device)
    scans(given.rounds, given.device)
    blocks(given.rounds, given.device)
