"""Feed-forward layers beside Hugging Face's and PyTorch's, and mixtures of experts beside Hugging Face's Mixtral.

    python benchmarks/feedforward.py

Both have the same weights and see the same tokens; outputs in float32 are compared first (in bfloat16 Mixtral's router
rounds its scores, ours does not, and a few tokens go to other experts). In each round every contestant runs, in
changing order; what is printed is the median of the ratios of the rounds, and their quartiles. Below 1 is faster than
the peer; the goal is 1. Within 5 % counts as equal. With backward, gradients reach inputs and weights.

Mixtral's block has two forms, a loop over experts and PyTorch's grouped product; the second is the one its models take.
"""

import torch
from measure import arguments, ratios, row
from torch import nn
from transformers import LlamaConfig, MixtralConfig
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

from llm_anatomy.layers.experts import Experts, GatedExperts, MixtureOfExperts, SoftmaxOfTopK, TopKOfSoftmax
from llm_anatomy.layers.feedforward import ACTIVATIONS, GATES, FeedForward, GatedFeedForward

GOAL = 1.0
# batch, tokens: one new token, a short text, a longer one
SIZES = [(1, 1), (4, 64), (4, 512)]
D_MODEL, D_FF, GATED_D_FF, EXPERT_D_FF, N_EXPERTS, K = 384, 1536, 1024, 256, 8, 2


def against_llama(device, dtype):
    config = LlamaConfig(hidden_size=D_MODEL, intermediate_size=GATED_D_FF, num_attention_heads=6)
    peer = LlamaMLP(config).to(device, dtype)
    ours = GatedFeedForward(D_MODEL, GATED_D_FF, ACTIVATIONS[GATES["swiglu"]]()).to(device, dtype)
    fused = torch.cat([peer.gate_proj.weight, peer.up_proj.weight])
    ours.load_state_dict({"w_gate_up.weight": fused, "w_down.weight": peer.down_proj.weight})
    return ours, peer


def against_sequential(device, dtype):
    peer = nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.GELU(), nn.Linear(D_FF, D_MODEL)).to(device, dtype)
    ours = FeedForward(D_MODEL, D_FF, ACTIVATIONS["gelu"](), bias=True).to(device, dtype)
    for mine, theirs in ((ours.w_up, peer[0]), (ours.w_down, peer[2])):
        mine.load_state_dict(theirs.state_dict())
    return ours, peer


def against_mixtral(form):
    def pair(device, dtype):
        config = MixtralConfig(
            hidden_size=D_MODEL,
            intermediate_size=EXPERT_D_FF,
            num_attention_heads=6,
            num_key_value_heads=6,
            num_local_experts=N_EXPERTS,
            num_experts_per_tok=K,
        )
        config._experts_implementation = form
        peer = MixtralSparseMoeBlock(config)
        for parameter in peer.parameters():
            nn.init.normal_(parameter, std=0.05)
        peer = peer.to(device, dtype)
        experts = GatedExperts(N_EXPERTS, D_MODEL, EXPERT_D_FF, nn.SiLU())
        ours = MixtureOfExperts(SoftmaxOfTopK(D_MODEL, N_EXPERTS, K), experts).to(device, dtype)
        state = {"router.w_router.weight": peer.gate.weight, "experts.w_up": peer.experts.gate_up_proj}
        ours.load_state_dict(state | {"experts.w_down": peer.experts.down_proj})
        return lambda x: ours(x)[0], peer

    return pair


def against_the_sorted_form(device, dtype):
    """Switch with room for all in fixed blocks beside the same layer without a bound, sorted."""
    ours, peer = (
        MixtureOfExperts(
            TopKOfSoftmax(D_MODEL, N_EXPERTS, 1),
            Experts(N_EXPERTS, D_MODEL, EXPERT_D_FF, nn.ReLU()),
            capacity_factor=factor,
        ).to(device, dtype)
        for factor in (1.25, None)
    )
    peer.load_state_dict(ours.state_dict())
    return lambda x: ours(x)[0], lambda x: peer(x)[0]


PAIRS = {
    "gated / LlamaMLP": (against_llama, GOAL),
    "plain / nn.Sequential": (against_sequential, GOAL),
    "experts / Mixtral, loop": (against_mixtral("eager"), GOAL),
    "experts / Mixtral, grouped": (against_mixtral("grouped_mm"), GOAL),
    "capacity 1.25 / no bound": (against_the_sorted_form, None),
}

if __name__ == "__main__":
    given = arguments(__doc__)
    print(f"{'pair':27} {'dtype':9} {'tokens':9} {'pass':8}  ratio  quartiles      peer (ms)")
    for name, (make, goal) in PAIRS.items():
        for dtype in (torch.float32, torch.bfloat16):
            ours, peer = make(given.device, dtype)
            for batch, tokens in SIZES:
                x = torch.randn(batch, tokens, D_MODEL, device=given.device).to(dtype)
                if goal is not None and dtype == torch.float32:
                    torch.testing.assert_close(ours(x), peer(x), rtol=1e-4, atol=1e-4)
                for backward in (False, True):
                    label = (
                        f"{name:27} {str(dtype)[6:]:9} {f'{batch} x {tokens}':9} {'fwd+bwd' if backward else 'fwd':8}"
                    )
                    row(label, ratios(ours, peer, [x], backward, given.rounds), goal)
