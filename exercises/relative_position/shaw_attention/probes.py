def probe_moved_text(answer, query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Moving a whole sequence, queries and keys alike, changes no output: only the offsets count."""
    return answer(query, key, value, key_vectors, value_vectors, query_positions + 23, key_positions + 23, mask)


def probe_hidden_keys(answer, query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Keys that a query may not attend to, their values and their positions have no influence on what it receives."""
    hidden = ~mask[:, 0]  # from the first query of each sequence
    key, value = key - 3 * hidden[:, None, :, None], value + 5 * hidden[:, None, :, None]
    positions = key_positions + 2 * hidden
    return answer(query, key, value, key_vectors, value_vectors, query_positions, positions, mask)[:, :, 0]
