import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def transformer_xl_terms(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    u: Float[Tensor, "n_heads d_head"],
    v: Float[Tensor, "n_heads d_head"],
    w_position: Float[Tensor, "n_heads d_head d_model"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "4 n_heads n_queries n_keys"]:
    """The four terms of the scores: query with key, query with distance, bias of the key, bias of the distance."""
    d_model, d_head = w_position.shape[-1], query.shape[-1]
    frequencies = 10000 ** (-torch.arange(0, d_model, 2, dtype=query.dtype, device=query.device) / d_model)
    angles = (query_positions[:, None] - key_positions)[..., None] * frequencies
    sinusoids = torch.cat((angles.sin(), angles.cos()), dim=-1)  # (n_queries, n_keys, d_model)
    positions = torch.einsum("qkm,hdm->hqkd", sinusoids, w_position)
    words = query @ key.mT
    asked = torch.einsum("hqd,hqkd->hqk", query, positions)
    weighed = torch.einsum("hd,hkd->hk", u, key)[:, None].expand_as(words)
    distant = torch.einsum("hd,hqkd->hqk", v, positions)
    return torch.stack((words, asked, weighed, distant)) / math.sqrt(d_head)


def _frequencies(d_model):
    return 10000 ** (-torch.arange(0, d_model, 2) / d_model)


def accepted_vector_for_each_pair(query, key, u, v, w_position, query_positions, key_positions):
    """Computes the vector of each pair of tokens, as in the hints, and each product with einsum."""
    distances = query_positions[:, None] - key_positions
    angles = distances[..., None] * _frequencies(w_position.shape[-1])
    vectors = torch.einsum("hdm, qkm -> hqkd", w_position, torch.cat((angles.sin(), angles.cos()), -1))
    terms = (
        torch.einsum("hqd, hkd -> hqk", query, key),
        torch.einsum("hqd, hqkd -> hqk", query, vectors),
        torch.einsum("hd, hkd -> hk", u, key)[:, None, :].expand(-1, query.shape[1], -1),
        torch.einsum("hd, hqkd -> hqk", v, vectors),
    )
    return torch.stack(terms) / math.sqrt(query.shape[-1])


def accepted_distinct_distances(query, key, u, v, w_position, query_positions, key_positions):
    """Computes a vector only for each distance that occurs, and picks the products of each pair from those."""
    n_heads, n_queries, d_head = query.shape
    distances, columns = torch.unique(query_positions[:, None] - key_positions, return_inverse=True)
    angles = torch.outer(distances.float(), _frequencies(w_position.shape[-1]))
    vectors = torch.cat((angles.sin(), angles.cos()), 1) @ w_position.mT  # (n_heads, distances, d_head)
    terms = torch.empty(4, n_heads, n_queries, key.shape[1])
    terms[0] = query @ key.mT
    terms[1] = (query @ vectors.mT).gather(2, columns.expand(n_heads, -1, -1))
    terms[2] = (key @ u[:, :, None]).mT
    terms[3] = (vectors @ v[:, :, None]).squeeze(-1)[:, columns]
    return terms / d_head**0.5


def accepted_angle_difference(query, key, u, v, w_position, query_positions, key_positions):
    """Expands the sine and cosine of each difference, so that the terms are products of queries and keys."""
    frequencies = _frequencies(w_position.shape[-1])
    query_angles, key_angles = query_positions[:, None] * frequencies, key_positions[:, None] * frequencies
    of_keys = torch.cat((key_angles.cos(), key_angles.sin()), 1)

    def with_distance(vectors):
        """The product of each vector, (n_heads, n_queries, d_head), with the vectors of the distances."""
        a, b = (vectors @ w_position).chunk(2, -1)  # of the sine and of the cosine of each distance
        sin, cos = query_angles.sin(), query_angles.cos()
        return torch.cat((a * sin + b * cos, b * sin - a * cos), -1) @ of_keys.T

    u, v = u[:, None].expand_as(query), v[:, None].expand_as(query)
    terms = torch.stack((query @ key.mT, with_distance(query), u @ key.mT, with_distance(v)))
    return terms / math.sqrt(query.shape[-1])


def cases(generator):
    def drawn(n_heads, d_head, d_model, query_positions, key_positions):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "u": (n_heads, d_head),
            "v": (n_heads, d_head),
            "w_position": (n_heads, d_head, d_model),
        }
        tensors = {name: torch.randn(*s, generator=generator).round(decimals=1) for name, s in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    three = torch.arange(3)  # the dog chased
    return [
        drawn(1, 2, 2, torch.tensor([3]), torch.tensor([2, 7])),  # heads as wide as the model
        drawn(1, 3, 4, three, three.clone()),
        drawn(3, 2, 6, torch.tensor([11, 12]), torch.arange(9, 13)),  # the newest two, with a memory
        drawn(2, 3, 4, torch.tensor([9, 3, 5, 0]), torch.tensor([2, 8, 40])),
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, vectors of distances of width 8."""
    shapes = (2, 5, 3), (2, 5, 3), (2, 3), (2, 3), (2, 3, 8)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move by 30 positions, at least one of your terms changes. Positions should enter only "
        "through the distances."
    )


def property_a_key_for_everyone(answer, generator):
    third = answer(*drawn(generator), FIVE, FIVE)[2]
    assert close(third, third[:, :1].expand_as(third)), "Your third term depends on the query. It should not."


def property_a_distance_for_everyone(answer, generator):
    fourth = answer(*drawn(generator), FIVE, FIVE)[3]
    assert close(fourth[:, 1:, 1:], fourth[:, :-1, :-1]), (
        "Your fourth term is not constant along its diagonals. It should depend only on the distance."
    )


def property_u_and_v_as_queries(answer, generator):
    query, key, _, _, w_position = drawn(generator)
    one = query[:, :1]
    terms = answer(one, key, one[:, 0], one[:, 0], w_position, FIVE[:1], FIVE)
    assert close(terms[0], terms[2]) and close(terms[1], terms[3]), (
        "If u and v are equal to the query, the last two terms should be equal to the first two."
    )


def property_words_alone(answer, generator):
    query, key, *rest = drawn(generator)
    assert close(3**0.5 * answer(query, key, *rest, FIVE, FIVE)[0], query @ key.mT), (
        "Your first term should be the dot product of query and key, divided by the root of the width of a head."
    )


def property_sum_of_the_terms(answer, generator):
    query, key, u, _, w_position = drawn(generator)
    apart = answer(query, key, u, u, w_position, FIVE, FIVE).sum(0)
    merged = answer(query + u[:, None], key, 0 * u, 0 * u, w_position, FIVE, FIVE).sum(0)
    assert close(apart, merged), (
        "If u and v are the same vector, the sum of your terms should not change when this vector is added to every "
        "query instead and u and v are set to zero."
    )


def property_gradient(answer, generator):
    query, key, u, v, w_position = drawn(generator)
    for name, trained in (("u", u), ("v", v), ("w_position", w_position)):
        trained.requires_grad_()
        total = answer(query, key, u, v, w_position, FIVE, FIVE).sum()
        assert total.requires_grad and torch.autograd.grad(total, trained, allow_unused=True)[0] is not None, (
            f"No gradient reaches {name} from your terms, so it could not be trained. Use tensor operations throughout."
        )
        trained.requires_grad_(False)


def hidden_cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, d_model):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "u": (n_heads, d_head),
            "v": (n_heads, d_head),
            "w_position": (n_heads, d_head, d_model),
        }
        tensors = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        positions = torch.randint(0, 60, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 1, 7, 5, 6), drawn(5, 4, 3, 2, 12), drawn(1, 6, 8, 4, 2), drawn(3, 5, 9, 1, 14)]
