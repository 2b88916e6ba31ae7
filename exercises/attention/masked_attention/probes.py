def probe_hidden_keys(answer, queries, keys, values, mask):
    """Keys that a query may not attend to, and their values, have no influence on what it receives."""
    hidden = ~mask[0, :, None]  # from the first query
    return answer(queries, keys - 3 * hidden, values + 5 * hidden, mask)[0]
