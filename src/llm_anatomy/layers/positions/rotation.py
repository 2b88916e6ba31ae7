r"""The rotation of rotary position embedding, written in three ways, with neighbours paired as in the paper.

``pairs = d_rotary / 2`` is the number of planes; the angle of a plane is the position times its frequency.
"""

import torch

from llm_anatomy.shapes import Float, Tensor


def rotate_by_matrix(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate by the definition: a matrix with one 2 x 2 rotation per plane on its diagonal, and zeros elsewhere.

    .. math:: R_m x, \quad R_m = \mathrm{blockdiag}_i
        \begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}

    Args:
        x: queries or keys.
        angles: :math:`m\theta_i`, position times frequency.

    Source: Su et al. (2021), equation 15; IITD-26, CMU-30, CMU-31, GT-35, UCL-28.

    >>> import math
    >>> quarter = torch.tensor([[math.pi / 2]])
    >>> [round(v, 4) for v in rotate_by_matrix(torch.tensor([[1.0, 2.0]]), quarter).flatten().tolist()]
    [-2.0, 1.0]
    """
    matrix = torch.zeros(*angles.shape[:-1], x.shape[-1], x.shape[-1], dtype=x.dtype, device=x.device)
    first = torch.arange(0, x.shape[-1], 2, device=x.device)
    second = first + 1
    matrix[..., first, first] = matrix[..., second, second] = angles.cos().to(x.dtype)
    matrix[..., first, second], matrix[..., second, first] = -angles.sin().to(x.dtype), angles.sin().to(x.dtype)
    return (matrix @ x[..., None])[..., 0]


def rotate_complex(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate by complex numbers: two neighbours are one such number, and its product with a number of length one is
    the rotation.

    .. math:: (x_{2i} + \mathrm{i}\, x_{2i+1}) \, e^{\mathrm{i} m \theta_i}

    Args:
        x, angles: as in ``rotate_by_matrix``.

    Source: Su et al. (2021), equation 12; IITD-25.

    >>> rotate_complex(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0]])).tolist()
    [[1.0, 2.0]]
    """
    return multiply_pairs(x, torch.stack((angles.cos(), angles.sin()), -1))


def rotate_efficient(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate without the zeros of the matrix: two products, entry by entry, and one reordering of neighbours.

    .. math:: R_m x = x \odot (\cos m\theta_0, \cos m\theta_0, \cos m\theta_1, \dots)
        + (-x_1, x_0, -x_3, x_2, \dots) \odot (\sin m\theta_0, \sin m\theta_0, \sin m\theta_1, \dots)

    Args:
        x, angles: as in ``rotate_by_matrix``.

    Source: Su et al. (2021), equation 34, with its last two entries corrected (erratum E-01); IITD-30.

    >>> rotate_efficient(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0]])).tolist()
    [[1.0, 2.0]]
    """
    cos, sin = (table.to(x.dtype).repeat_interleave(2, -1) for table in (angles.cos(), angles.sin()))
    return x * cos + rotate_every_two(x) * sin


def rotate_every_two(x: Float[Tensor, "*batch d_rotary"]) -> Float[Tensor, "*batch d_rotary"]:
    """Rotate each plane by a quarter turn: neighbours swap, and the first of them changes its sign.

    Args:
        x: pairs of neighbours.

    Source: Su et al. (2021), equation 34 (erratum E-01); IITD-30.

    >>> rotate_every_two(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [-2.0, 1.0, -4.0, 3.0]
    """
    return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)


def multiply_pairs(
    x: Float[Tensor, "*batch d_rotary"], factors: Float[Tensor, "*#batch pairs 2"]
) -> Float[Tensor, "*batch d_rotary"]:
    """Multiply neighbours by ``factors`` (cosine, sine) as complex numbers, in the precision of ``factors``.

    Args:
        x: pairs of neighbours.
        factors: cosine and sine of the angle of each pair.

    Source: Su et al. (2021), equation 12; IITD-25.

    >>> multiply_pairs(torch.tensor([3.0, 5.0]), torch.tensor([[0.0, 1.0]])).tolist()
    [-5.0, 3.0]
    """
    if x.dtype != factors.dtype:
        return multiply_pairs(x.to(factors.dtype), factors).to(x.dtype)
    if torch.compiler.is_compiling():  # torch.compile fuses operations on real numbers, but not on complex ones
        (first, second), (cos, sin) = (x[..., 0::2], x[..., 1::2]), factors.unbind(-1)
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(step % 2 for step in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # a pair must lie where a complex number can
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (*batch, pairs)
    return torch.view_as_real(pairs * torch.view_as_complex(factors)).flatten(-2)


def interleaved_to_half_split(x: Tensor) -> Tensor:
    """Reorder the last axis, so that entries that were neighbours are paired across the halves. Applied head by
    head to the output rows of W^Q and W^K, and to their biases, this converts a model with interleaved pairs to the
    same model with half-split pairs.

    Args:
        x: of any shape, an even number of entries on its last axis.

    Source: the storage orders of GPT-J and GPT-NeoX; IITD-26.

    >>> interleaved_to_half_split(torch.tensor([0, 1, 2, 3, 4, 5])).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat((x[..., 0::2], x[..., 1::2]), -1)
