import torch

from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.shapes import Float, Tensor


def near_and_far(seed: int) -> tuple[Float[Tensor, "2 2"], str]:
    """The sizes of the scores (rows: independent, equal; columns: near, far), and which kind falls."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys = torch.randn(2, 1000, 64, dtype=torch.complex64, generator=generator) * 2**0.5
    frequencies = 10000 ** (-torch.arange(64) / 64)

    def size(keys, distances):
        turns = torch.exp(1j * distances[:, None] * frequencies)
        return torch.einsum("np,np,rp->nr", queries.conj(), keys, turns).real.square().mean().sqrt()

    near, far = torch.arange(1, 11), torch.arange(201, 211)
    sizes = torch.stack([size(kind, distances) for kind in (keys, queries) for distances in (near, far)]).view(2, 2)
    falls = (sizes[:, 1] < 0.75 * sizes[:, 0]).tolist()
    conclusion = {(True, True): "both kinds fall", (False, True): "only equal pairs fall"}
    conclusion |= {(True, False): "only independent pairs fall", (False, False): "neither falls"}
    return sizes, conclusion[tuple(falls)]


def accepted_turned_by_the_package(seed):
    """Rotates both with the package, one distance at a time, with the query ahead of the key."""
    rotary, generator = InterleavedRotary(128, 10000.0), torch.Generator().manual_seed(seed)
    sizes = []
    for equal in (False, True):
        queries = torch.randn(1, 1, 1000, 128, generator=generator)
        keys = queries if equal else torch.randn(1, 1, 1000, 128, generator=generator)
        for first in (1, 201):
            squares = []
            for distance in range(first, first + 10):
                start = torch.full((1, 1000), 7)
                turned = rotary.rotate(queries, start + distance), rotary.rotate(keys, start)
                squares.append((turned[0] * turned[1]).sum(-1).square().mean())
            sizes.append(torch.stack(squares).mean().sqrt().item())
    return [sizes[:2], sizes[2:]], "only equal pairs fall"


def accepted_real_numbers(seed):
    """Rotates the keys with cosines and sines, by all distances at once, in float64."""
    torch.manual_seed(seed)
    distances = torch.cat((torch.arange(1, 11), torch.arange(201, 211)))
    angles = distances[:, None].double() * 10000.0 ** (-torch.arange(0, 128, 2) / 128)
    rows = []
    for equal in (False, True):
        query = torch.randn(1000, 1, 128).double()
        key = query if equal else torch.randn(1000, 1, 128).double()
        first, second = key[..., 0::2], key[..., 1::2]
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        scores = (query[..., 0::2] * turned[0] + query[..., 1::2] * turned[1]).sum(-1)
        rows.append(torch.stack([part.pow(2).mean().sqrt() for part in scores.split(10, dim=1)]))
    return torch.stack(rows), "only equal pairs fall"


def cases(generator):
    return [{"seed": 0}, {"seed": 1}]


CONCLUSIONS = ["both kinds fall", "only equal pairs fall", "only independent pairs fall", "neither falls"]
SIZES = torch.tensor([[11.31, 11.31], [100.55, 50.70]])  # expected over all pairs, so that no draw enters here


def observe(returned, seed):
    """your four sizes with those of the experiment, and your conclusion with your sizes"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the table and the conclusion"
    )
    table, conclusion = returned
    assert not isinstance(table, str), "the table should come first, then the conclusion"
    sizes = torch.as_tensor(table).double()
    assert sizes.shape == (2, 2), f"the table has shape {tuple(sizes.shape)}, not (2, 2)"
    assert sizes.isfinite().all(), "the table contains numbers that are not finite"
    assert conclusion in CONCLUSIONS, f"the conclusion is {conclusion!r}, which is not one of the four strings"
    ratios = sizes / SIZES
    words = [["too small", "right", "too large"][(x > 0.87) + (x > 1.13)] for x in ratios.flatten().tolist()]
    if words != ["right"] * 4:
        return "independent pairs: near {}, far {}; equal pairs: near {}, far {}".format(*words)
    falls = (sizes[:, 1] <= 0.75 * sizes[:, 0]).tolist()
    named = [falls == each for each in ([True, True], [False, True], [True, False], [False, False])]
    follows = conclusion == CONCLUSIONS[named.index(True)]
    return f"all four sizes are right, and the conclusion {'follows' if follows else 'does not follow'} from them"


def hidden_cases(generator):
    return [{"seed": seed} for seed in (2, 3, 40)]
