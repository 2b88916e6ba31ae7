def probe_moved_text(answer, query, key, table, query_positions, key_positions):
    """Moving a whole text, queries and keys alike, changes no weight: only the offsets count."""
    return answer(query, key, table, query_positions + 23, key_positions + 23)
