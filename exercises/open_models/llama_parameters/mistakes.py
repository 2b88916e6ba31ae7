def _count(d, n_layers, h, g, d_ff, n_vocab, tied, **changes):
    kv = changes.get("kv", g * d // h)
    block = changes.get("square", 2) * d * d + changes.get("shared", 2) * d * kv
    block += changes.get("gated", 3) * d * d_ff + changes.get("norms", 2) * d + changes.get("biases", 0)
    once = changes.get("last", d) + changes.get("tables", 1 if tied else 2) * n_vocab * d + changes.get("more", 0)
    return changes.get("depth", n_layers) * block + once


def heads_not_shared(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your matrices of keys and values are as large as that of the queries. There are `n_kv_heads` heads in them."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, kv=d_model)


def values_not_shared(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """One of your matrices of keys and values is as large as that of the queries. There are `n_kv_heads` heads in
    both."""
    given = (d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings)
    return _count(*given, square=3, shared=1)


def one_matrix_for_keys_and_values(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count one matrix of `n_kv_heads` heads. There are two, one for the keys and one for the values."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, shared=1)


def narrow_inputs(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your matrices of keys and values are as narrow at their inputs as at their outputs. Their inputs are as wide as
    the model."""
    kv = n_kv_heads * d_model // n_heads
    given = (d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings)
    return _count(*given, shared=0, more=2 * n_layers * kv * kv)


def heads_of_a_wrong_width(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You divide the width among the key-value heads, so that sharing saves nothing or too much. Every head is
    `d_model / n_heads` wide, also those of the keys and values."""
    given = (d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings)
    return _count(*given, kv=n_heads * d_model // n_kv_heads)


def no_gate(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your feed-forward layer has two matrices. A gated one has a third."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, gated=2)


def one_large_matrix_missing(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """One of the two large matrices of your attention is missing: that of the output, or that of the queries."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, square=1)


def narrow_queries_or_output(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """One of your two large matrices, that of the queries or that of the output, has only `n_kv_heads` heads. It is the
    keys and the values that are shared."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, square=1, shared=3)


def everything_shared(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """All four matrices of your attention have only `n_kv_heads` heads. Queries and output have `n_heads`."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, square=0, shared=4)


def no_last_norm(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """The norm after the last block is missing."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, last=0)


def one_norm_in_each_block(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count one norm in each block. There are two: one for attention and one for the feed-forward layer."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, norms=1)


def last_norm_in_each_block(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count three norms in each block. The third stands only once, after the last block."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, norms=3, last=0)


def no_norms(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count no norms. Each has a gain for every feature."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, norms=0, last=0)


def two_vectors_in_each_norm(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your norms have two parameters for each feature, such as a gain and a shift. RMSNorm has a gain alone."""
    given = (d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings)
    return _count(*given, norms=4, last=2 * d_model)


def always_tied(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count the embedding once, whatever `tie_embeddings` says. If it is false, the unembedding is a matrix of its
    own."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, tables=1)


def never_tied(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count the unembedding in every model. If `tie_embeddings` is true, it is the embedding itself."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, tables=2)


def tied_turned_round(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count the unembedding where it is tied, and not where it is a matrix of its own."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, tables=1 + tie_embeddings)


def with_biases(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count a bias for each output of the matrices. Models of the LLaMA family have none."""
    biases = 3 * d_model + 2 * (n_kv_heads * d_model // n_heads) + 2 * d_ff
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, biases=biases)


def one_block(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """You count a single block. There are `n_layers` of them."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings, depth=1)


def four_times_the_width(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your feed-forward layer is four times as wide as the model. It is `d_ff` wide."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, 4 * d_model, n_vocab, tie_embeddings)


def billions(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Your number is in billions. Return the number itself, to the last parameter."""
    return _count(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings) / 1e9
