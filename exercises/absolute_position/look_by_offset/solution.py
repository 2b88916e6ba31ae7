import torch

from llm_anatomy.shapes import Float, Tensor


def look_by_offset(
    offset: int, d_model: int
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"]]:
    """w_query and w_key of a head by which each token attends to the one `offset` positions on."""
    angles = offset / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    sine, cosine = angles.sin(), angles.cos()
    on_rows = torch.block_diag(*torch.stack((cosine, -sine, sine, cosine), -1).reshape(-1, 2, 2))
    return 1000 * on_rows, torch.eye(d_model)
