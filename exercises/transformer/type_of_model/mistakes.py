import torch


def _type(depends, encoder, decoder, both):
    if encoder:
        return "encoder"
    return "decoder" if decoder else "encoder-decoder" if both else "none of these"


def _tables(depends, n_source):
    every = torch.ones_like(depends)
    both = every.tril()
    both[:n_source, :n_source] = True
    return every, every.tril(), both


def corner_alone(depends, n_source):
    """Your answer for some tables depends on too few entries: a model is an encoder only if all outputs see all tokens,
    and a decoder only if none sees a later one."""
    return "encoder" if depends[0, -1] else "encoder-decoder" if depends[0, n_source - 1] else "decoder"


def never_none(depends, n_source):
    """You always name one of the three types. Some tables fit none of them."""
    every, causal, _ = _tables(depends, n_source)
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), True)


def later_tokens_alone(depends, n_source):
    """For a decoder, you only make sure that no output sees a later token. It must also see its own token and all
    tokens before it."""
    every, causal, both = _tables(depends, n_source)
    return _type(depends, torch.equal(depends, every), not depends.triu(1).any(), torch.equal(depends, both))


def sources_not_seen(depends, n_source):
    """In your encoder-decoder, the target does not see the source. Cross-attention is what lets it."""
    every, causal, both = _tables(depends, n_source)
    both[n_source:, :n_source] = False
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), torch.equal(depends, both))


def source_sees_everything(depends, n_source):
    """In your encoder-decoder, the source sees the target. The encoder has finished before the target begins."""
    every, causal, both = _tables(depends, n_source)
    both[:n_source] = True
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), torch.equal(depends, both))


def transposed(depends, n_source):
    """You read the table the wrong way round: its rows are the outputs, and its columns are the tokens that were
    changed."""
    every, causal, both = _tables(depends, n_source)
    return _type(depends, torch.equal(depends, every), torch.equal(depends.T, causal), torch.equal(depends.T, both))


def source_too_long(depends, n_source):
    """Your source has one position too many. The first n_source positions are 0 to n_source - 1."""
    every, causal, both = _tables(depends, n_source + 1)
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), torch.equal(depends, both))


def source_too_short(depends, n_source):
    """Your source has one position too few. The first n_source positions are 0 to n_source - 1."""
    every, causal, both = _tables(depends, n_source - 1)
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), torch.equal(depends, both))


def names_exchanged(depends, n_source):
    """You have exchanged the encoder and the decoder. Which of them writes one token after the other?"""
    every, causal, both = _tables(depends, n_source)
    return _type(depends, torch.equal(depends, causal), torch.equal(depends, every), torch.equal(depends, both))


def target_not_checked(depends, n_source):
    """For an encoder-decoder you look at the source alone. Its target must see the whole source, and no later token of
    the target."""
    every, causal, both = _tables(depends, n_source)
    rows = depends[:n_source].eq(both[:n_source]).all()
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), rows)


def blocks_alone(depends, n_source):
    """For an encoder-decoder you do not make sure that the source is blind for the target. The encoder has finished
    before the target begins."""
    every, causal, both = _tables(depends, n_source)
    same = depends.eq(both)
    same[:n_source, n_source:] = True
    return _type(depends, torch.equal(depends, every), torch.equal(depends, causal), bool(same.all()))
