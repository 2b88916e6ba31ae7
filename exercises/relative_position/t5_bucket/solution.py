import math

import torch

from llm_anatomy.shapes import Int, Tensor


def t5_bucket(
    offset: Int[Tensor, "n_queries n_keys"], n_buckets: int, max_distance: int
) -> Int[Tensor, "n_queries n_keys"]:
    """The bucket of each offset, key position minus query position, in both directions."""
    half = n_buckets // 2
    single = half // 2  # how many distances have a bucket of their own
    distance = offset.abs()
    growth = torch.log(distance.clamp(min=single) / single) / math.log(max_distance / single)
    shared = (single + (growth * (half - single)).long()).clamp(max=half - 1)
    return torch.where(distance < single, distance, shared) + half * (offset > 0)
