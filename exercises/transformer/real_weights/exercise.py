import math
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Int, Tensor


def llama(config: dict, weights: dict[str, Tensor], ids: Int[Tensor, "n_tokens"]) -> dict[str, Tensor]:
    """Return {"logits": …} of the model that the config and the weights describe, for the tokens of one text."""
    heads, kv_heads, width = (config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    done = {}

    def keep(name, value):
        done[name] = value
        return value

    def linear(name, x):
        return keep(name, x @ weights[f"{name}.weight"].T)

    def norm(name, x):
        root = (x.square().mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt()
        return keep(name, x / root * weights[f"{name}.weight"])

    turns = torch.arange(len(ids))[:, None] * config["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    cosine, sine = turns.cos(), turns.sin()  # (n_tokens, head_dim / 2)

    def rotated(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)

    def attention(name, x):
        q = rotated(linear(f"{name}.q_proj", x).unflatten(-1, (heads, width)).transpose(0, 1))
        k = rotated(linear(f"{name}.k_proj", x).unflatten(-1, (kv_heads, width)).transpose(0, 1))
        v = linear(f"{name}.v_proj", x).unflatten(-1, (kv_heads, width)).transpose(0, 1)
        k, v = (each.repeat_interleave(heads // kv_heads, dim=0) for each in (k, v))
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        share = torch.softmax((q @ k.mT / math.sqrt(width)).masked_fill(future, -math.inf), dim=-1)
        return keep(name, linear(f"{name}.o_proj", (share @ v).transpose(0, 1).flatten(1)))

    def feedforward(name, x):
        gate = linear(f"{name}.gate_proj", x)
        return keep(name, linear(f"{name}.down_proj", gate * gate.sigmoid() * linear(f"{name}.up_proj", x)))

    x = keep("model.embed_tokens", weights["model.embed_tokens.weight"][ids])
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        x = x + attention(f"{layer}.self_attn", norm(f"{layer}.input_layernorm", x))
        x = x + feedforward(f"{layer}.mlp", norm(f"{layer}.post_attention_layernorm", x))
    output = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return done | {"logits": norm("model.norm", x) @ weights[f"{output}.weight"].T}


def accepted_modules(config, weights, ids):
    """Modules with the names of the file, into which load_state_dict puts the weights; complex numbers rotate."""
    h, g, w = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    n_vocab, d = weights["model.embed_tokens.weight"].shape
    d_ff = len(weights["model.layers.0.mlp.up_proj.weight"])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.o_proj = nn.Linear(d, h * w, bias=False), nn.Linear(h * w, d, bias=False)
            self.k_proj, self.v_proj = nn.Linear(d, g * w, bias=False), nn.Linear(d, g * w, bias=False)

        def turn(self, x):
            planes = torch.complex(x[..., : w // 2], x[..., w // 2 :])
            speeds = 1 / config["rope_theta"] ** (torch.arange(w // 2) * 2 / w)
            angles = torch.outer(torch.arange(x.shape[-2]), speeds)
            planes = planes * torch.polar(torch.ones_like(angles), angles)
            return torch.cat((planes.real, planes.imag), -1)

        def forward(self, x):
            q = self.turn(self.q_proj(x).view(len(x), h, w).transpose(0, 1))
            k = self.turn(self.k_proj(x).view(len(x), g, w).transpose(0, 1))
            v = self.v_proj(x).view(len(x), g, w).transpose(0, 1)
            out = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
            return self.o_proj(out.transpose(0, 1).reshape(len(x), h * w))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj, self.up_proj = nn.Linear(d, d_ff, bias=False), nn.Linear(d, d_ff, bias=False)
            self.down_proj = nn.Linear(d_ff, d, bias=False)

        def forward(self, x):
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.self_attn, self.mlp = Attention(), MLP()
            self.input_layernorm = nn.RMSNorm(d, eps=config["rms_norm_eps"])
            self.post_attention_layernorm = nn.RMSNorm(d, eps=config["rms_norm_eps"])

        def forward(self, x):
            x = x + self.self_attn(self.input_layernorm(x))
            return x + self.mlp(self.post_attention_layernorm(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Module()
            self.model.embed_tokens = nn.Embedding(n_vocab, d)
            self.model.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))
            self.model.norm = nn.RMSNorm(d, eps=config["rms_norm_eps"])
            self.lm_head = nn.Linear(d, n_vocab, bias=False)
            if config["tie_word_embeddings"]:
                self.lm_head.weight = self.model.embed_tokens.weight

        def forward(self, ids):
            x = self.model.embed_tokens(ids)
            for layer in self.model.layers:
                x = layer(x)
            return self.lm_head(self.model.norm(x))

    llama = Llama()
    llama.load_state_dict(weights, strict=False)
    return {"logits": llama(ids)}


def accepted_head_by_head(config, weights, ids):
    """Plain loops over heads, queries and entries; the last token first, and only what a token needs."""
    heads, groups, width = (config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    half = width // 2

    def rms(x, weight):
        return torch.stack([row * (row.pow(2).mean() + config["rms_norm_eps"]).rsqrt() for row in x]) * weight

    def turned(vector, position):
        result = torch.empty(width)
        for t in range(half):
            angle = position / config["rope_theta"] ** (2 * t / width)
            a, b, c, s = vector[t], vector[t + half], math.cos(angle), math.sin(angle)
            result[t], result[t + half] = a * c - b * s, a * s + b * c
        return result

    x = F.embedding(ids, weights["model.embed_tokens.weight"])
    for i in range(config["num_hidden_layers"]):
        own = {name.split(f"layers.{i}.")[1]: w for name, w in weights.items() if f".layers.{i}." in name}
        normed = rms(x, own["input_layernorm.weight"])
        updates = torch.zeros_like(x)
        for head in range(heads):
            mine, shared = slice(head * width, (head + 1) * width), head * groups // heads
            theirs = slice(shared * width, (shared + 1) * width)
            queries = normed @ own["self_attn.q_proj.weight"][mine].T
            keys = normed @ own["self_attn.k_proj.weight"][theirs].T
            values = normed @ own["self_attn.v_proj.weight"][theirs].T
            turned_keys = torch.stack([turned(key, n) for n, key in enumerate(keys)])
            for m in reversed(range(len(ids))):
                scores = turned_keys[: m + 1] @ turned(queries[m], m) * width**-0.5
                updates[m] += own["self_attn.o_proj.weight"][:, mine] @ (scores.softmax(0) @ values[: m + 1])
        x = x + updates
        normed = rms(x, own["post_attention_layernorm.weight"])
        inner = F.silu(normed @ own["mlp.gate_proj.weight"].T) * (normed @ own["mlp.up_proj.weight"].T)
        x = x + inner @ own["mlp.down_proj.weight"].T
    last = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return {"logits": torch.einsum("td,vd->tv", rms(x, weights["model.norm.weight"]), last)}


def drawn(generator, hidden_size=6, heads=4, kv_heads=2, width=4, d_ff=5, n_vocab=7, layers=2, tied=True, **more):
    """A config and weights; the numbers are multiples of 1/8, which take little room."""

    def matrix(*shape):
        return (torch.randn(*shape, generator=generator) * 6).round() / 8

    config = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    config |= {"head_dim": width, "tie_word_embeddings": tied, "rms_norm_eps": 0.125, "rope_theta": 100.0} | more
    config |= {"hidden_size": hidden_size, "intermediate_size": d_ff, "vocab_size": n_vocab}
    weights = {"model.embed_tokens.weight": matrix(n_vocab, hidden_size) / 2}
    for i in range(layers):
        shapes = {"q": (heads * width, hidden_size), "k": (kv_heads * width, hidden_size)}
        shapes |= {"v": (kv_heads * width, hidden_size), "o": (hidden_size, heads * width)}
        weights |= {f"model.layers.{i}.self_attn.{name}_proj.weight": matrix(*shapes[name]) for name in shapes}
        shapes = {"gate": (d_ff, hidden_size), "up": (d_ff, hidden_size), "down": (hidden_size, d_ff)}
        weights |= {f"model.layers.{i}.mlp.{name}_proj.weight": matrix(*shapes[name]) for name in shapes}
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{i}.{name}.weight"] = 1 + matrix(hidden_size) / 2
    weights["model.norm.weight"] = 1 + matrix(hidden_size) / 2
    return config, weights | ({} if tied else {"lm_head.weight": matrix(n_vocab, hidden_size) / 2})


UNTIED = {"hidden_size": 5, "heads": 3, "kv_heads": 3, "width": 6, "d_ff": 4, "n_vocab": 9, "layers": 1, "tied": False}


def cases(generator):
    (config, weights), (other, others) = drawn(generator), drawn(generator, **UNTIED, rope_theta=20.0)
    texts = [[3, 1, 4, 1, 5], [2]]
    tied = [{"config": config, "weights": weights, "ids": torch.tensor(ids)} for ids in texts]
    return [*tied, {"config": other, "weights": others, "ids": torch.tensor([8, 0, 6, 7])}]


def logits_of(returned):
    logits = returned.get("logits") if isinstance(returned, dict) else None
    assert isinstance(logits, torch.Tensor), "a dictionary with a tensor `logits` is needed"
    return logits.detach()


def observe(returned, config, weights, ids):
    """the logits, a row for each token"""
    return logits_of(returned)


SUSPECTS = {
    "scale": "the scores are not divided by the root of head_dim",
    "wide": "the scores are divided by the root of the width of x instead of that of head_dim",
    "mask": "every token sees the tokens after it",
    "neighbours": "the rotation pairs neighbouring entries (interleaved) instead of the two halves of a head",
    "backwards": "the rotation has the opposite direction",
    "still": "queries and keys are not rotated",
    "queries": "only the queries are rotated",
    "values": "the values are rotated too",
    "tile": "the query heads take the key-value heads in turn, although neighbouring query heads share one",
    "eps": "the norm leaves out eps",
    "outside": "the norm adds eps to the root instead of adding it under the root",
    "weight": "the norm leaves out its weight",
    "mean": "the norm subtracts the mean, as LayerNorm does and RMSNorm does not",
    "norms": "the two norms of a layer are exchanged",
    "swapped": "the activation is applied to up_proj instead of gate_proj",
    "gelu": "the activation is GELU instead of SiLU",
    "relu": "the activation is ReLU instead of SiLU",
    "sigmoid": "the gate is a plain sigmoid instead of SiLU",
    "no_first_sum": "the output of attention is not added to x before post_attention_layernorm reads it",
    "no_second_sum": "the feed-forward layer replaces x instead of being added to it",
    "raw": "attention reads x instead of the norm of x",
    "raw_again": "the feed-forward layer reads x instead of the norm of x",
    "last": "the last norm is missing",
    "tied": "the embeddings are used for the output although the file has an lm_head",
}


ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "sigmoid": F.sigmoid}


def activations(config, weights, ids, wrong=frozenset()):
    """The outputs of the modules by name in the order in which they are computed, with these things wrong."""
    stages, (h, g) = {}, (config["num_attention_heads"], config["num_key_value_heads"])
    width, eps = config["head_dim"], 0.0 if {"eps", "outside"} & wrong else config["rms_norm_eps"]

    def at(name, x):
        stages[name] = x
        return x

    def linear(name, x):
        return at(name, F.linear(x, weights[f"{name}.weight"]))

    def norm(name, x, stored=None):
        x = x - x.mean(-1, keepdim=True) if "mean" in wrong else x
        y = x / (x.square().mean(-1, keepdim=True).add(eps).sqrt() + ("outside" in wrong) * config["rms_norm_eps"])
        return at(name, y if "weight" in wrong else y * weights[f"{stored or name}.weight"])

    def turned(x):
        angles = torch.arange(len(ids))[:, None] / config["rope_theta"] ** (torch.arange(0, width, 2) / width)
        c, s = angles.cos(), angles.sin() * (-1 if "backwards" in wrong else 1)
        if "neighbours" in wrong:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def attend(name, x):
        q, k, v = (
            linear(f"{name}.{p}_proj", x).unflatten(-1, (n, width)).transpose(0, 1)
            for p, n in (("q", h), ("k", g), ("v", g))
        )
        q, k = (q if "still" in wrong else turned(q)), (k if {"still", "queries"} & wrong else turned(k))
        v = turned(v) if "values" in wrong else v
        k, v = (y.repeat(h // g, 1, 1) if "tile" in wrong else y.repeat_interleave(h // g, 0) for y in (k, v))
        scores = q @ k.mT / math.sqrt(1 if "scale" in wrong else x.shape[-1] if "wide" in wrong else width)
        hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        heads = (scores if "mask" in wrong else scores.masked_fill(hidden, -math.inf)).softmax(-1) @ v
        return at(name, linear(f"{name}.o_proj", heads.transpose(0, 1).flatten(1)))

    def feed(name, x):
        gate, up = (linear(f"{name}.{p}_proj", x) for p in ("gate", "up"))
        gate, up = (up, gate) if "swapped" in wrong else (gate, up)
        activation = next((f for each, f in ACTIVATIONS.items() if each in wrong), F.silu)
        return at(name, linear(f"{name}.down_proj", activation(gate) * up))

    x = at("model.embed_tokens", weights["model.embed_tokens.weight"][ids])
    for layer in (f"model.layers.{i}" for i in range(config["num_hidden_layers"])):
        norms = [f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"]
        stored = norms[::-1] if "norms" in wrong else norms
        normed = norm(norms[0], x, stored[0])
        x = (0 if "no_first_sum" in wrong else x) + attend(f"{layer}.self_attn", x if "raw" in wrong else normed)
        normed = norm(norms[1], x, stored[1])
        x = (0 if "no_second_sum" in wrong else x) + feed(f"{layer}.mlp", x if "raw_again" in wrong else normed)
    x = x if "last" in wrong else norm("model.norm", x)
    untied = "lm_head.weight" in weights and "tied" not in wrong
    return stages | {"logits": F.linear(x, weights["lm_head.weight" if untied else "model.embed_tokens.weight"])}


def close(a, b):
    return a.shape == b.shape and torch.allclose(a.float(), b, rtol=1e-3, atol=1e-4)


def explanation(found, right, name, before, *case):
    """What gives this wrong activation and leaves those before it right: one suspect, or two, or nothing."""
    one = []
    for each in SUSPECTS:
        result = activations(*case, {each})
        if name in result and all(close(result[x], right[x]) for x in before) and not close(result[name], right[name]):
            one.append({each})
    for wrong in one + [a | b for a, b in combinations(one, 2)]:
        if close(found, activations(*case, wrong)[name]):
            return " and ".join(SUSPECTS[each] for each in SUSPECTS if each in wrong)
    return ""


ATTENTION = (
    "Check the split into heads, the rotation, the shared keys and values, the scale, the mask, the join and o_proj."
)


FEED_FORWARD = "Check which of the two projections goes through SiLU, the product, and down_proj."


WHERE_TO_LOOK = {
    "model.embed_tokens": "Row i should be the row of the matrix that belongs to token ids[i].",
    "o_proj": ATTENTION,
    "down_proj": FEED_FORWARD,
    "layernorm": "Check what the norm reads, the mean square over the last axis, eps and the weight.",
    "_proj": "Check what the matrix multiplies. Each matrix is stored as (outputs, inputs).",
    "self_attn": ATTENTION,
    "mlp": FEED_FORWARD,
    "model.norm": "Check the two additions in each layer, then this norm.",
    "logits": "Check the last norm and the output matrix.",
}


ASK_FOR_MORE = (
    "To find out where your model goes wrong, return some activations beside the logits, under the names in the "
    "statement. The check then tells you which of them is the first that differs."
)


def property_the_first_activation_that_differs(answer, generator):
    for options in ({}, UNTIED | {"rope_theta": 20.0}):
        config, weights = drawn(generator, **options)
        ids = torch.tensor([1, 5, 0, 6, 2])
        returned = answer(config, weights, ids)
        right, found = activations(config, weights, ids), {"logits": logits_of(returned)}
        if close(found["logits"], right["logits"]):
            continue
        found |= {name: value for name, value in returned.items() if isinstance(value, torch.Tensor)}
        checked = [name for name in right if name in found]
        name = next(each for each in checked if not close(found[each], right[each]))
        value, before = found[name], checked[: checked.index(name)]
        assert value.shape == right[name].shape, (
            f"In a model of ours, your `{name}` has the shape {tuple(value.shape)} instead of "
            f"{tuple(right[name].shape)}."
        )
        first = f"In a model of ours, the first of your activations that differs is `{name}`"
        where = f"{first}; `{before[-1]}` before it is right." if before else f"{first}."
        assert not value.isnan().any(), (
            f"{where} It contains NaN: 0 / 0 and ∞ − ∞ give that, and a softmax over scores that are all −∞."
            + (f" {ASK_FOR_MORE}" if checked == ["logits"] else "")
        )
        cause = explanation(value, right, name, before, config, weights, ids)
        if checked == ["logits"]:
            assert not cause, f"In a model of ours, your logits are what we get if {cause}."
            raise AssertionError(ASK_FOR_MORE)
        assert not cause, f"{where} It is what we get if {cause}."
        raise AssertionError(f"{where} {next(words for part, words in WHERE_TO_LOOK.items() if part in name)}")


def hidden_cases(generator):
    def drawn(n_tokens, d, heads, kv_heads, width, d_ff, layers, tied, theta, eps):
        def matrix(*shape):
            return torch.randn(*shape, generator=generator) / shape[-1] ** 0.5

        config = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
        config |= {"head_dim": width, "rms_norm_eps": eps, "rope_theta": theta, "tie_word_embeddings": tied}
        config |= {"hidden_size": d, "intermediate_size": d_ff, "vocab_size": 11}
        weights = {"model.embed_tokens.weight": matrix(11, d), "model.norm.weight": 1 + matrix(d) / 2}
        for i in range(layers):
            at = f"model.layers.{i}."
            for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
                weights[f"{at}self_attn.{name}_proj.weight"] = 2 * matrix(rows * width, d)
            weights[f"{at}self_attn.o_proj.weight"] = matrix(d, heads * width)
            for name, shape in (("gate", (d_ff, d)), ("up", (d_ff, d)), ("down", (d, d_ff))):
                weights[f"{at}mlp.{name}_proj.weight"] = matrix(*shape)
            for name in ("input_layernorm", "post_attention_layernorm"):
                weights[f"{at}{name}.weight"] = 1 + matrix(d)
        if not tied:
            weights["lm_head.weight"] = matrix(11, d)
        return {"config": config, "weights": weights, "ids": torch.randint(11, (n_tokens,), generator=generator)}

    return [
        drawn(7, 8, 4, 2, 6, 5, 2, True, 50.0, 0.1),
        drawn(4, 5, 6, 3, 4, 7, 1, False, 10.0, 0.05),
        drawn(9, 7, 3, 1, 8, 6, 3, True, 30.0, 0.02),
    ]
