import torch

from llm_anatomy.shapes import Bool, Tensor


def causal_mask(n_queries: int, n_keys: int) -> Bool[Tensor, "n_queries n_keys"]:
    """Return the mask for the newest n_queries of n_keys tokens, True where a query may attend to a key."""
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(diagonal=n_keys - n_queries)


def accepted_moved_diagonal(n_queries, n_keys):
    """Moves the diagonal of a triangle so that it ends at the last key."""
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)


def accepted_positions_compared(n_queries, n_keys):
    """Numbers the positions of queries and keys, and compares them."""
    key_positions = torch.arange(n_keys)
    query_positions = key_positions[n_keys - n_queries :]
    return key_positions <= query_positions[:, None]


def accepted_lists_of_booleans(n_queries, n_keys):
    """Counts for each query how many keys it does not see, and writes its row as a Python list."""
    n_hidden = reversed(range(n_queries))
    return torch.tensor([[True] * (n_keys - n) + [False] * n for n in n_hidden])


def cases(generator):
    lengths = [(2, 3), (5, 5), (1, 4), (4, 7)]  # 5 and 5: the pig chased a dog
    return [{"n_queries": n_queries, "n_keys": n_keys} for n_queries, n_keys in lengths]


def property_sees_itself(answer, generator):
    assert answer(6, 6).diagonal().all(), (
        "Every token should be able to attend to itself. In your mask, at least one cannot."
    )


def property_one_more_key_for_each_query(answer, generator):
    seen = answer(3, 8).sum(-1).tolist()
    assert seen == [6, 7, 8], (
        f"Of 8 keys, your 3 queries see {', '.join(map(str, seen))}. Each query should see one key more than the "
        "query before it, and the last query should see all keys."
    )


def property_newest_tokens(answer, generator):
    assert torch.equal(answer(2, 7), answer(7, 7)[-2:]), (
        "If there are two queries and seven keys, the queries belong to the last two of seven tokens. Your mask "
        "should have the same rows for them as with seven queries, but it does not."
    )


def property_other_order(answer, generator):
    assert torch.equal(answer(6, 6).flip(0, 1), answer(6, 6).T), (
        "If we list the tokens with the most recent first, the mask should become its transpose. Yours does not."
    )


def hidden_cases(generator):
    lengths = [(1, 1), (8, 8), (3, 10), (1, 6), (6, 7), (9, 30)]
    return [{"n_queries": n_queries, "n_keys": n_keys} for n_queries, n_keys in lengths]
