"""RoPE beside Hugging Face's ``apply_rotary_pos_emb`` of the same pairing, and the three forms beside each other.

    python benchmarks/rotary.py

Queries and keys are turned, as in one attention layer; ours looks up its tables, theirs are given. In each round every
contestant runs once, in changing order; what is printed is the median of the ratios of the rounds (and their
quartiles). Below 1 is faster than the peer; the goal is 0.8. Within 5 % counts as equal.
"""

import torch
from measure import arguments, ratios, summary
from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as cohere
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama

from llm_anatomy.layers.positions.rotary import (
    HalfSplitRotary,
    InterleavedRotary,
    rotate_by_matrix,
    rotate_complex,
    rotate_efficient,
)

GOAL = 0.8
# batch, query heads, key heads, tokens, d_head: one new token, then a short, a middling and a long text
SIZES = [(1, 16, 4, 1, 128), (4, 6, 6, 64, 64), (4, 12, 12, 256, 64), (1, 32, 8, 2048, 128)]


def heads_first(batch, heads, tokens, d_head, dtype, device):
    """As attention makes them: a view whose heads were moved in front of the tokens."""
    return torch.randn(batch, tokens, heads, d_head, device=device).to(dtype).transpose(1, 2)


def against_hugging_face(rounds, device):
    print(
        f"{'pairing':12} {'dtype':9} {'batch, heads, kv, tokens, d':26} {'pass':8} {'ratio':>5}  quartiles     HF (ms)"
    )
    for cls, peer, widen in (
        (InterleavedRotary, cohere, lambda t: t.repeat_interleave(2, -1)),
        (HalfSplitRotary, llama, lambda t: torch.cat((t, t), -1)),
    ):
        for dtype in (torch.float32, torch.bfloat16):
            for batch, heads, kv_heads, tokens, d_head in SIZES:
                inputs = [heads_first(batch, h, tokens, d_head, dtype, device) for h in (heads, kv_heads)]
                positions = torch.arange(100, 100 + tokens, device=device).expand(batch, -1)
                scheme = cls(d_head).to(device)
                angles = widen(positions[..., None].float() * scheme.frequencies)
                cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

                def ours(query, key, scheme=scheme, positions=positions):
                    return scheme.rotate(query, positions), scheme.rotate(key, positions)

                def theirs(query, key, peer=peer, cos=cos, sin=sin):
                    return peer(query, key, cos, sin)

                tolerance = 1e-4 if dtype == torch.float32 else 0.1
                for a, b in zip(ours(*inputs), theirs(*inputs), strict=True):
                    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
                for backward in (False, True):
                    middle, low, high, milliseconds = summary(ratios(ours, theirs, inputs, backward, rounds))
                    print(
                        f"{cls.__name__[:-6]:12} {str(dtype)[6:]:9} {str((batch, heads, kv_heads, tokens, d_head)):26} "
                        f"{'fwd+bwd' if backward else 'fwd':8} {middle:5.2f}  [{low:.2f}, {high:.2f}]  "
                        f"{milliseconds:8.3f}{'' if middle <= GOAL * 1.05 else '  above the goal'}",
                        flush=True,
                    )


def forms_beside_each_other(rounds, device):
    print("\nThe forms, tables made each time, over the efficient one (float32, interleaved)")
    for batch, heads, tokens, d_head in [(2, 4, 64, 32), (2, 8, 256, 64)]:
        x = heads_first(batch, heads, tokens, d_head, torch.float32, device)
        angles = torch.arange(tokens, device=device)[:, None] * InterleavedRotary(d_head).to(device).frequencies

        def run(form, angles=angles):
            return lambda inputs: (form(inputs, angles),)

        for form in (rotate_by_matrix, rotate_complex):
            middle, *_ = summary(ratios(run(form), run(rotate_efficient), [x], False, rounds))
            print(f"{form.__name__:18} {str((batch, heads, tokens, d_head)):18} {middle:6.2f}")


if __name__ == "__main__":
    given = arguments(__doc__)
    against_hugging_face(given.rounds, given.device)
    forms_beside_each_other(given.rounds, given.device)
