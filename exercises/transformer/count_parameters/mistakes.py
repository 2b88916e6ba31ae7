def _parts(n_layers, d, d_ff, n_vocab, n_ctx):
    return [
        (n_vocab + n_ctx) * d,
        n_layers * 4 * (d + 1) * d,
        n_layers * (2 * d * d_ff + d_ff + d),
        (4 * n_layers + 2) * d,
    ]


def output_matrix_counted(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """You count the vectors of the tokens twice. The output matrix is tied to them: it is the same matrix."""
    embeddings, *rest = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return embeddings + n_vocab * d_model, *rest


def no_positions(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your embeddings lack the positions. GPT-2 learns a vector for each of them."""
    return n_vocab * d_model, *_parts(n_layers, d_model, d_ff, n_vocab, n_ctx)[1:]


def no_biases(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your matrices of attention and feed-forward have no biases. In GPT-2 each has one."""
    e, _, _, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, n_layers * 4 * d_model**2, n_layers * 2 * d_model * d_ff, norms


def no_biases_in_attention(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """The biases of attention are missing. Each of the four matrices has one."""
    e, _, f, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, n_layers * 4 * d_model**2, f, norms


def no_biases_in_feed_forward(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """The biases of the feed-forward layer are missing. Each of the two matrices has one."""
    e, a, _, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a, n_layers * 2 * d_model * d_ff, norms


def three_matrices(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your attention has three matrices. The fourth mixes the outputs of the heads."""
    e, a, f, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a // 4 * 3, f, norms


def biases_equally_long(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """The two biases of your feed-forward layer are equally long. A bias has as many numbers as its matrix has
    outputs."""
    e, a, _, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a, n_layers * 2 * (d_model * d_ff + d_model), norms


def both_biases_of_width_d_ff(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Both biases of your feed-forward layer have d_ff numbers. The second matrix leads back to d_model."""
    e, a, _, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a, n_layers * 2 * (d_model * d_ff + d_ff), norms


def one_feed_forward_matrix(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your feed-forward layer has only the matrix to d_ff. The one that leads back is missing."""
    e, a, _, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a, n_layers * (d_model + 1) * d_ff, norms


def no_last_norm(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """The norm at the end is missing."""
    return *_parts(n_layers, d_model, d_ff, n_vocab, n_ctx)[:3], 4 * n_layers * d_model


def norms_without_biases(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your norms have only a weight. LayerNorm has a bias as well."""
    return *_parts(n_layers, d_model, d_ff, n_vocab, n_ctx)[:3], (2 * n_layers + 1) * d_model


def one_norm_in_each_block(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your blocks have one norm each. There are two: one for attention and one for the feed-forward layer."""
    return *_parts(n_layers, d_model, d_ff, n_vocab, n_ctx)[:3], (n_layers + 1) * 2 * d_model


def last_norm_in_each_block(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """You count three norms in each block. The third stands only once, at the end of the model."""
    return *_parts(n_layers, d_model, d_ff, n_vocab, n_ctx)[:3], 6 * n_layers * d_model


def one_block(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """You count attention and feed-forward for one block. Count them for all of them."""
    e, a, f, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, a // n_layers, f // n_layers, norms


def one_block_and_its_norms(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """You count one block. All but the embeddings and the last norm is there once for each of the n_layers blocks."""
    return _parts(1, d_model, d_ff, n_vocab, n_ctx)


def attention_after_feed_forward(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your second and third numbers are exchanged: attention comes before feed-forward."""
    e, a, f, norms = _parts(n_layers, d_model, d_ff, n_vocab, n_ctx)
    return e, f, a, norms


def the_total(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """You return the total. Return the four parts."""
    return sum(_parts(n_layers, d_model, d_ff, n_vocab, n_ctx))


def four_times_the_width(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Your feed-forward layer is four times as wide as the model, whatever `d_ff` says."""
    return _parts(n_layers, d_model, 4 * d_model, n_vocab, n_ctx)
