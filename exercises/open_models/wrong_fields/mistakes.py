RIGHT = {
    "A": ("d_model", 4096),
    "B": ("n_vocab", 128256),
    "C": ("n_kv_heads", 8),
    "D": ("position", "learned"),
    "E": ("tie_embeddings", True),
}


def values_as_they_stand():
    """You return the values that stand in the configs. Return the right ones."""
    wrong = {"A": 4086, "B": 32000, "C": 64, "D": "sinusoidal", "E": False}
    return {letter: (field, wrong[letter]) for letter, (field, _) in RIGHT.items()}


def number_of_heads_changed():
    """In A, you change the number of heads. What is known about it says that there are 32, and how wide they are."""
    return RIGHT | {"A": ("n_heads", 31)}


def next_multiple_below():
    """In A, your width is divisible by the number of heads, but then the heads are not 128 wide."""
    return RIGHT | {"A": ("d_model", 4064)}


def one_table():
    """In B, you put all that is missing into one table. There are two of them, and each has a row for each token."""
    return RIGHT | {"B": ("n_vocab", 32000 + 2 * 96256)}


def missing_rows():
    """In B, your number is that of the rows that are missing in each table. How many are there then?"""
    return RIGHT | {"B": ("n_vocab", 96256)}


def wider_feed_forward():
    """In B, you change `d_ff`. But all tensors of the blocks have the right shapes."""
    return RIGHT | {"B": ("d_ff", 16341)}


def heads_not_shared():
    """In B, you change the number of key-value heads. But all tensors of the blocks have the right shapes."""
    return RIGHT | {"B": ("n_kv_heads", 32)}


def more_layers():
    """In B, you change the number of layers. Would that lead to exactly this number of parameters?"""
    return RIGHT | {"B": ("n_layers", 36)}


def layers_of_c():
    """In C, fewer layers would lead to the same cache. But what is known says that there are 80."""
    return RIGHT | {"C": ("n_layers", 10)}


def keys_alone():
    """In C, your number of key-value heads is twice as large as it should be. The cache holds keys and values, and each
    of their numbers takes 2 bytes."""
    return RIGHT | {"C": ("n_kv_heads", 16)}


def bytes_for_numbers():
    """In C, your number of key-value heads leads to half of the cache. Each number takes 2 bytes."""
    return RIGHT | {"C": ("n_kv_heads", 4)}


def single_head():
    """In C, one key-value head would lead to an eighth of the cache."""
    return RIGHT | {"C": ("n_kv_heads", 1)}


def query_heads_changed():
    """In C, you change the number of query heads. The cache holds keys and values."""
    return RIGHT | {"C": ("n_heads", 8)}


def rope_in_gpt2():
    """In D, RoPE would not need a table of its own."""
    return RIGHT | {"D": ("position", "rope")}


def alibi_in_gpt2():
    """In D, ALiBi would not need a table of its own."""
    return RIGHT | {"D": ("position", "alibi")}


def no_positions():
    """In D, what is the tensor for, if there are no positions? Its rows are as many as `n_ctx`."""
    return RIGHT | {"D": ("position", "none")}


def smaller_vocabulary():
    """In E, half of the vocabulary leads to the right number of parameters. But the tokenizer has 256,000 tokens."""
    return RIGHT | {"E": ("n_vocab", 128000)}


def narrower_heads():
    """In E, you change the width of the heads. The shapes of the tensors agree with the config."""
    return RIGHT | {"E": ("d_head", 128)}


def feed_forward_of_llama():
    """In B, you change `d_ff`. But all tensors of the blocks have the right shapes."""
    return RIGHT | {"B": ("d_ff", 11008)}


def rounded_vocabulary():
    """In B, your vocabulary is close, but the count should be right to the last parameter."""
    return RIGHT | {"B": ("n_vocab", 128000)}


def rows_for_columns():
    """In D, you change `n_ctx`. The table has a row for each position, so it agrees with its shape."""
    return RIGHT | {"D": ("n_ctx", 768)}


def more_key_value_heads():
    """In E, you change the number of key-value heads. The shapes of the tensors agree with the config."""
    return RIGHT | {"E": ("n_kv_heads", 8)}
