import torch


def probe_causality(answer, x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Under a causal mask, changing a later token leaves the outputs before it alone."""
    half = len(x) // 2
    changed = torch.cat((x[:half], 2 - x[half:]))
    return answer(changed, w_query, w_key, w_value, w_output, n_heads, torch.ones_like(mask).tril())[:half]


def probe_order_of_tokens(answer, x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Without a mask, tokens in another order give the same outputs in that order."""
    return answer(x.flip(0), w_query, w_key, w_value, w_output, n_heads, torch.ones_like(mask)).flip(0)
