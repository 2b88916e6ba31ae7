import math

import torch

from llm_anatomy.shapes import Float, Tensor


def previous_token_head(n_tokens: int) -> tuple[Float[Tensor, "n_tokens d_head"], Float[Tensor, "n_tokens d_head"]]:
    """w_query and w_key of a head in which each token attends to the one before it."""
    w_key = torch.eye(n_tokens)
    score = math.log(100 * n_tokens)  # 0.99 against n_tokens - 2 others with score 0, and some to spare
    w_query = math.sqrt(n_tokens) * score * w_key.roll(1, dims=0)  # the query of token i is the key of token i - 1
    return w_query, w_key
