def _count(
    d_model,
    d_ff,
    n_vocab,
    n_layers,
    encoder_shared,
    decoder_shared,
    d_embed,
    tied,
    *,
    cross=4,
    of_attention=4,
    n_matrices=2,
    projection=lambda d_embed, d_model: d_embed * d_model if d_embed != d_model else 0,
    output=None,
):
    encoder = of_attention * d_model**2 + n_matrices * d_model * d_ff
    decoder = encoder + cross * d_model**2
    blocks = encoder * (1 if encoder_shared else n_layers) + decoder * (1 if decoder_shared else n_layers)
    own = n_vocab * d_model if output is None else output
    return blocks + n_vocab * d_embed + projection(d_embed, d_model) + (0 if tied else own)


def nothing_shared(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """You count every block, also where all of them are the same."""
    return _count(d_model, d_ff, n_vocab, n_layers, False, False, d_embed, tied)


def stacks_exchanged(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where one stack is shared, you share the other one."""
    return _count(d_model, d_ff, n_vocab, n_layers, decoder_shared, encoder_shared, d_embed, tied)


def cross_attention_forgotten(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Your decoder has no cross-attention."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied, cross=0)


def three_matrices(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Your attention has three matrices. That of the output is the fourth."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, of_attention=3, cross=3)


def gated(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Your feed-forward layer has three matrices, as one with a gate. Here there is no gate."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied, n_matrices=3)


def projection_forgotten(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the table is narrow, the matrix that projects its rows is missing."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, projection=lambda d_embed, d_model: 0)


def projection_everywhere(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the table is as wide as the model, it needs no projection."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, projection=lambda d_embed, d_model: d_embed * d_model)


def output_forgotten(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the output has a table of its own, this table is missing."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied, output=0)


def narrow_output(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the output has a table of its own, your table is as narrow as that of the inputs. It is as wide as the
    model."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, output=n_vocab * d_embed)


def always_two_tables(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """You count a table of the output where it is tied as well."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, False)


def tied_turned_round(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """You count a second table where it is tied, and none where it is not."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, not tied)


def one_table_for_each_input(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """You count a table for each of the two inputs. They share one."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes) + n_vocab * d_embed


def millions(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Your number is in millions. Return the number itself."""
    return _count(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied) / 1e6


def projection_of_the_output(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the table is narrow, you count two projections. A tied output has the same one, and an output of its own
    needs none."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, projection=lambda d_embed, d_model: 2 * d_embed * d_model if d_embed != d_model else 0)


def projection_of_its_own(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Where the output has a table of its own, it is as wide as the model, and needs no projection."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes, output=n_vocab * d_model + (d_embed * d_model if d_embed != d_model else 0))


def sharing_in_both_alone(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """You share blocks only where both stacks do. Each stack goes by its own switch."""
    both = encoder_shared and decoder_shared
    return _count(d_model, d_ff, n_vocab, n_layers, both, both, d_embed, tied)


def cross_attention_in_both(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Your encoder has cross-attention, too. Only the decoder has it."""
    sizes = d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied
    return _count(*sizes) + 4 * d_model**2 * (1 if encoder_shared else n_layers)
