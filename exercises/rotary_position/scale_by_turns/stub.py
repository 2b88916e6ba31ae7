import math  # noqa: F401

import torch  # noqa: F401

from llm_anatomy.shapes import Float, Tensor


def scale_by_turns(d_head: int, base: int, factor: int, n_trained: int) -> Float[Tensor, "n_pairs"]:
    """Frequencies to read factor times further: kept above 4 turns in n_trained positions, slowed below 1."""
    raise NotImplementedError
