"""Our model beside Hugging Face's model of the same weights: the same inputs for both, and their logits."""

import inspect

import torch


def inputs(config, batch=3, tokens=17, source=13):
    """Ours and theirs, without padding and with it: on the left for decoders, on the right for what is read whole."""
    g = torch.Generator().manual_seed(1)

    def drawn(length):
        return torch.randint(1, config.n_vocab, (batch, length), generator=g)

    ids, attention_mask = drawn(tokens), torch.ones(batch, tokens, dtype=torch.bool)
    if config.kind == "encoder-decoder":
        given = dict(ids=ids, source=drawn(source), here=torch.ones(batch, source, dtype=torch.bool))
        yield given, attention_mask
        here = given["here"].clone()
        for row, n in list(enumerate((0, source // 3, 1)))[:batch]:
            here[row, source - n :] = False
        yield given | dict(here=here), attention_mask
        return
    given = dict(ids=ids)
    if getattr(config, "n_segments", 0):
        given["segments"] = torch.randint(0, config.n_segments, (batch, tokens), generator=g)
    yield given, attention_mask
    attention_mask = attention_mask.clone()
    for row, n in list(enumerate((tokens // 3, 0, tokens // 17)))[:batch]:
        attention_mask[row, slice(tokens - n, None) if config.kind == "encoder" else slice(n)] = False
    yield given, attention_mask


def our_logits(model, given, attention_mask):
    if "source" in given:
        return model(given["ids"], source=model.encode(given["source"], given["here"]))
    return model(
        given["ids"], attention_mask=attention_mask, **{name: given[name] for name in given if name == "segments"}
    )


def forget_longer_texts(model):
    """Dynamic RoPE of theirs keeps the frequencies of the longest text that it has seen."""
    for module in model.modules():
        if "dynamic" in str(getattr(module, "rope_type", "")):
            module.max_seq_len_cached = module.original_max_seq_len
            for name in [name for name, _ in module.named_buffers() if name.endswith("original_inv_freq")]:
                prefix = name.removesuffix("original_inv_freq")
                setattr(module, f"{prefix}inv_freq", getattr(module, name).clone())
                if prefix:
                    setattr(module, f"{prefix}max_seq_len_cached", module.original_max_seq_len)


def their_logits(model, given, attention_mask):
    forget_longer_texts(model)
    knows = inspect.signature(model.forward).parameters
    if "source" in given:
        asked = dict(input_ids=given["source"], attention_mask=given["here"].long(), decoder_input_ids=given["ids"])
    else:
        asked = dict(input_ids=given["ids"], attention_mask=attention_mask.long())
        if "segments" in given:
            asked["token_type_ids"] = given["segments"]
        if "position_ids" in knows:
            asked["position_ids"] = (attention_mask.cumsum(1) - 1).clamp(min=0)
    if "use_cache" in knows:
        asked["use_cache"] = False
    found = model(**asked)
    return found.logits if "logits" in found else found.last_hidden_state


@torch.no_grad()
def logits(ours, hf, **sizes):
    """Ours and theirs, for both inputs: those of all tokens that are none of padding."""
    for given, attention_mask in inputs(ours.config, **sizes):
        found, expected = our_logits(ours, given, attention_mask), their_logits(hf, given, attention_mask)
        assert found.shape == expected.shape and expected.isfinite().all() and found[attention_mask].isfinite().all()
        yield found[attention_mask], expected[attention_mask]


def difference(ours, hf):
    """The largest, over both inputs."""
    return max((found - expected).abs().max().item() for found, expected in logits(ours, hf))
