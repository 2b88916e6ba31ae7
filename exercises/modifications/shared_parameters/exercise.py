import torch


def shared_parameters(
    d_model: int,
    d_ff: int,
    n_vocab: int,
    n_layers: int,
    encoder_shared: bool,
    decoder_shared: bool,
    d_embed: int,
    tied: bool,
) -> int:
    """Return the number of parameters of an encoder-decoder, some of which may be shared."""
    encoder = 4 * d_model**2 + 2 * d_model * d_ff
    decoder = encoder + 4 * d_model**2
    table = n_vocab * d_embed + (d_embed * d_model if d_embed != d_model else 0)
    blocks = encoder * (1 if encoder_shared else n_layers) + decoder * (1 if decoder_shared else n_layers)
    return blocks + table + (0 if tied else n_vocab * d_model)


def accepted_listed(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Lists the shapes of all matrices, and adds them up."""
    attention, feedforward = [(d_model, d_model)] * 4, [(d_model, d_ff), (d_ff, d_model)]
    shapes = (attention + feedforward) * (n_layers if not encoder_shared else 1)
    shapes += (attention + attention + feedforward) * (n_layers if not decoder_shared else 1)
    shapes += [(n_vocab, d_embed)] + [(d_embed, d_model)] * (d_embed < d_model or d_embed > d_model)
    shapes += [] if tied else [(n_vocab, d_model)]
    return sum(a * b for a, b in shapes)


def accepted_tensor(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
    """Multiplies numbers of blocks by sizes, as tensors."""
    shared = torch.tensor([encoder_shared, decoder_shared])
    n_blocks = torch.where(shared, 1, n_layers)
    sizes = 2 * d_model * (torch.tensor([2, 4]) * d_model + d_ff)
    of_projection = 0 if d_embed == d_model else d_embed * d_model
    return (n_blocks * sizes).sum() + n_vocab * (d_embed + (1 - int(tied)) * d_model) + of_projection


NAMES = ("d_model", "d_ff", "n_vocab", "n_layers", "encoder_shared", "decoder_shared", "d_embed", "tied")


def cases(generator):
    t5 = (768, 3072, 32128, 12)
    rows = [
        (*t5, False, False, 768, True),
        (*t5, True, True, 768, False),
        (*t5, True, False, 768, False),
        (*t5, False, False, 128, False),
        (*t5, False, False, 128, True),
        (3, 5, 7, 2, False, True, 3, True),
        (4, 6, 9, 3, True, False, 2, True),
        (3, 5, 8, 2, True, True, 4, False),  # wider embeddings are projected, too
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def property_depth_of_shared_blocks(answer, generator):
    one, other = (float(answer(8, 12, 20, n_layers, True, True, 8, True)) for n_layers in (3, 9))
    assert one == other, "If both stacks are shared, the number of layers should make no difference. In yours it does."


def hidden_cases(generator):
    rows = [
        (512, 2048, 32000, 6, False, True, 64, False),
        (24, 40, 100, 5, True, True, 6, True),
        (30, 70, 90, 7, False, True, 30, False),
        (10, 20, 50, 4, True, False, 5, False),
        (12, 20, 40, 3, False, True, 16, True),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
