import torch  # noqa: F401

from llm_anatomy.shapes import Float, Tensor


def look_back(n_back: int, d_head: int, base: int) -> tuple[Float[Tensor, "d_head"], Float[Tensor, "d_head"]]:
    """The query and the key, the same for all words, of a head that attends n_back positions back."""
    raise NotImplementedError
