import math
import re

import torch
import torch.nn.functional as F


def _norm(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def _rotate(x, theta, sign=1):
    width = x.shape[-1]
    angle = torch.outer(torch.arange(x.shape[-2]), theta ** (-torch.arange(0, width, 2) / width))
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - sign * b * angle.sin(), b * angle.cos() + sign * a * angle.sin()), -1)


def _rotate_neighbours(x, theta):
    return _rotate(x.unflatten(-1, (-1, 2)).mT.flatten(-2), theta).unflatten(-1, (2, -1)).mT.flatten(-2)


def _rotate_in_heads_axis(x, theta):
    return _rotate(x.transpose(0, 1), theta).transpose(0, 1)


def _same(x, theta):
    return x


def _in_groups(x, n):
    return x.repeat_interleave(n, 0)


def _llama(
    config,
    weights,
    ids,
    norm=_norm,
    rotations=(_rotate, _rotate, _same),
    share=_in_groups,
    scale=None,
    masked=True,
    hide=lambda scores: scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf),
    join=lambda heads: heads.transpose(0, 1).flatten(1),
    gate=lambda gate, up: F.silu(gate) * up,
    block=None,
    order=("input_layernorm", "post_attention_layernorm"),
    last=True,
    output=None,
    start=lambda x: x,
):
    h, g, width = (config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    eps = config["rms_norm_eps"]
    x = start(weights["model.embed_tokens.weight"][ids])
    block = block or _pre_norm
    for i in range(config["num_hidden_layers"]):
        own = {name.split(f".{i}.")[1][:-7]: w for name, w in weights.items() if f"layers.{i}." in name}

        def attend(x, own=own):
            heads = zip("qkv", (h, g, g), rotations, strict=True)
            q, k, v = (
                turn((x @ own[f"self_attn.{name}_proj"].T).unflatten(1, (n, -1)).transpose(0, 1), config["rope_theta"])
                for name, n, turn in heads
            )
            scores = q @ share(k, h // g).mT / math.sqrt(scale(x, width, g * width) if scale else width)
            if masked:
                scores = hide(scores)
            return join(scores.softmax(-1) @ share(v, h // g)) @ own["self_attn.o_proj"].T

        def feed(x, own=own):
            return gate(x @ own["mlp.gate_proj"].T, x @ own["mlp.up_proj"].T) @ own["mlp.down_proj"].T

        norms = [lambda x, w=own[name]: norm(x, w, eps) for name in order]
        x = block(x, attend, feed, *norms)
    x = norm(x, weights["model.norm.weight"], eps) if last else x
    name = output or ("model.embed_tokens" if config["tie_word_embeddings"] else "lm_head")
    return {"logits": x @ weights[f"{name}.weight"].T}


def _pre_norm(x, attend, feed, first, second):
    x = x + attend(first(x))
    return x + feed(second(x))


def no_scale(config, weights, ids):
    """Your attention lacks the scale: divide the scores by the root of head_dim before the softmax."""
    return _llama(config, weights, ids, scale=lambda x, width, all_heads: 1)


def scale_by_hidden_size(config, weights, ids):
    """Your scale comes from the width of a token. A score is a sum over the entries of one head, so take head_dim."""
    return _llama(config, weights, ids, scale=lambda x, width, all_heads: x.shape[-1])


def divided_by_head_dim(config, weights, ids):
    """You divide the scores by head_dim itself. Divide them by its root."""
    return _llama(config, weights, ids, scale=lambda x, width, all_heads: width * width)


def no_mask(config, weights, ids):
    """Your attention lacks the mask: every token sees the tokens that come after it."""
    return _llama(config, weights, ids, masked=False)


def neighbours_paired(config, weights, ids):
    """Your rotation pairs neighbouring entries (interleaved). In this layout, entry t of a head is paired with entry
    t + head_dim / 2 (half-split)."""
    return _llama(config, weights, ids, rotations=(_rotate_neighbours, _rotate_neighbours, _same))


def rotated_backwards(config, weights, ids):
    """Your rotation has the opposite direction. Check the signs of the two sines."""
    back = lambda x, theta: _rotate(x, theta, -1)  # noqa: E731
    return _llama(config, weights, ids, rotations=(back, back, _same))


def not_rotated(config, weights, ids):
    """Your queries and keys are not rotated, so the model does not know the order of the tokens it sees."""
    return _llama(config, weights, ids, rotations=(_same, _same, _same))


def queries_alone_rotated(config, weights, ids):
    """You rotate the queries but not the keys. The scores depend on the distance only if both are rotated."""
    return _llama(config, weights, ids, rotations=(_rotate, _same, _same))


def keys_alone_rotated(config, weights, ids):
    """You rotate the keys but not the queries. The scores depend on the distance only if both are rotated."""
    return _llama(config, weights, ids, rotations=(_same, _rotate, _same))


def values_rotated(config, weights, ids):
    """You rotate the values, too. Only queries and keys are rotated."""
    return _llama(config, weights, ids, rotations=(_rotate, _rotate, _rotate))


def rotated_by_the_head(config, weights, ids):
    """Your angles depend on the number of the head instead of the position of the token. Which axis is which when you
    rotate?"""
    return _llama(config, weights, ids, rotations=(_rotate_in_heads_axis, _rotate_in_heads_axis, _same))


def theta_of_another_model(config, weights, ids):
    """Your rotation uses the base 10000. The config of this model says something else in rope_theta."""
    return _llama(config | {"rope_theta": 10000.0}, weights, ids)


def frequencies_of_the_whole_width(config, weights, ids):
    """Your exponents run over t / head_dim instead of 2t / head_dim, so the slower pairs turn too fast."""
    return _llama(config | {"rope_theta": config["rope_theta"] ** 0.5}, weights, ids)


def heads_take_turns(config, weights, ids):
    """Your query heads take the key-value heads in turn: 0, 1, 0, 1. Neighbouring query heads share one: 0, 0, 1, 1."""
    return _llama(config, weights, ids, share=lambda x, n: x.repeat(n, 1, 1))


def heads_joined_without_transpose(config, weights, ids):
    """Your heads are joined in the wrong order: a reshape moves no number. Bring the axis of the tokens to the front
    before you join."""
    return _llama(config, weights, ids, join=lambda heads: heads.reshape(heads.shape[1], -1))


def no_eps(config, weights, ids):
    """Your norm leaves out eps, or uses a much smaller one. Every checkpoint states its own in rms_norm_eps, and it
    belongs under the root."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: _norm(x, w, 1e-6))


def eps_outside_the_root(config, weights, ids):
    """You add eps to the root. It belongs under the root."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: x / (x.square().mean(-1, True).sqrt() + eps) * w)


def no_norm_weight(config, weights, ids):
    """Your norm leaves out its weight. After the division, each entry is multiplied by a stored number."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: _norm(x, None, eps))


def one_plus_weight(config, weights, ids):
    """You multiply by 1 + weight, as Gemma does. Llama multiplies by the weight itself."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: _norm(x, 1 + w, eps))


def mean_subtracted(config, weights, ids):
    """Your norm subtracts the mean, as LayerNorm does. RMSNorm only divides by the root of the mean square."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: _norm(x - x.mean(-1, keepdim=True), w, eps))


def sum_of_squares(config, weights, ids):
    """Your norm divides by the root of the sum of the squares. It should be their mean."""
    return _llama(config, weights, ids, norm=lambda x, w, eps: x / (x.square().sum(-1, True) + eps).sqrt() * w)


def norms_exchanged(config, weights, ids):
    """The two norms of a layer are exchanged. input_layernorm belongs to attention and post_attention_layernorm to the
    feed-forward layer."""
    return _llama(config, weights, ids, order=("post_attention_layernorm", "input_layernorm"))


def one_norm_for_both(config, weights, ids):
    """Both norms of your layer use the weight of input_layernorm. The feed-forward layer has a norm of its own."""
    return _llama(config, weights, ids, order=("input_layernorm", "input_layernorm"))


def gate_and_up_exchanged(config, weights, ids):
    """You apply SiLU to up_proj. It belongs to gate_proj; up_proj enters the product as it is."""
    return _llama(config, weights, ids, gate=lambda gate, up: gate * F.silu(up))


def silu_of_the_product(config, weights, ids):
    """You apply SiLU to the product of both projections. Apply it to gate_proj alone, before the product."""
    return _llama(config, weights, ids, gate=lambda gate, up: F.silu(gate * up))


def sigmoid_gate(config, weights, ids):
    """Your gate is a plain sigmoid. SiLU is z times the sigmoid of z."""
    return _llama(config, weights, ids, gate=lambda gate, up: gate.sigmoid() * up)


def gelu_gate(config, weights, ids):
    """Your gate is GELU. This model was trained with SiLU."""
    return _llama(config, weights, ids, gate=lambda gate, up: F.gelu(gate) * up)


def relu_gate(config, weights, ids):
    """Your gate is ReLU. This model was trained with SiLU."""
    return _llama(config, weights, ids, gate=lambda gate, up: F.relu(gate) * up)


def no_gate(config, weights, ids):
    """Your feed-forward layer does not use up_proj. Two projections are multiplied, and only one of them passes
    through SiLU."""
    return _llama(config, weights, ids, gate=lambda gate, up: F.silu(gate))


def no_residual_connections(config, weights, ids):
    """Your layers replace x. What attention and the feed-forward layer return has to be added to x."""
    return _llama(config, weights, ids, block=lambda x, attend, feed, first, second: feed(second(attend(first(x)))))


def normed_residual(config, weights, ids):
    """You add to the output of the norm what should be added to x itself. Keep x, and norm a copy of it."""

    def block(x, attend, feed, first, second):
        x = first(x)
        x = second(x + attend(x))
        return x + feed(x)

    return _llama(config, weights, ids, block=block)


def norm_after_the_sum(config, weights, ids):
    """Your norms come after the addition (post-norm). In this model each norm comes before the part that reads it
    (pre-norm)."""

    def block(x, attend, feed, first, second):
        x = first(x + attend(x))
        return second(x + feed(x))

    return _llama(config, weights, ids, block=block)


def both_read_the_same(config, weights, ids):
    """Your feed-forward layer reads x from before the attention. It should read what attention has already been added
    to."""
    return _llama(
        config, weights, ids, block=lambda x, attend, feed, first, second: x + attend(first(x)) + feed(second(x))
    )


def feed_forward_first(config, weights, ids):
    """Your feed-forward layer comes before attention. In a layer, attention comes first."""

    def block(x, attend, feed, first, second):
        x = x + feed(second(x))
        return x + attend(first(x))

    return _llama(config, weights, ids, block=block)


def no_last_norm(config, weights, ids):
    """Your last norm is missing: model.norm stands between the last layer and the output matrix."""
    return _llama(config, weights, ids, last=False)


def always_tied(config, weights, ids):
    """You always use the embeddings as the output matrix. Where tie_word_embeddings is False, the file has an
    lm_head.weight for it."""
    return _llama(config, weights, ids, output="model.embed_tokens")


def embeddings_scaled(config, weights, ids):
    """You multiply the embeddings by the root of their width, as the original Transformer does. Llama takes them as
    they are."""
    return _llama(config, weights, ids, start=lambda x: x * x.shape[-1] ** 0.5)


def one_layer_only(config, weights, ids):
    """Your model has one layer, whatever num_hidden_layers says. Do you leave the loop too early?"""
    return _llama(config | {"num_hidden_layers": 1}, weights, ids)


def probabilities(config, weights, ids):
    """You return probabilities. Logits are what the softmax would be applied to."""
    return {"logits": _llama(config, weights, ids)["logits"].softmax(-1)}


def last_token_only(config, weights, ids):
    """You return the logits of the last token alone. Return a row of logits for every token of the text."""
    return {"logits": _llama(config, weights, ids)["logits"][-1]}


def _rotate_into_itself(x, theta):
    a = _rotate(x, theta).chunk(2, -1)[0]
    b = _rotate(torch.cat((a, x.chunk(2, -1)[1]), -1), theta).chunk(2, -1)[1]
    return torch.cat((a, b), -1)


def log_probabilities(config, weights, ids):
    """You return log probabilities. Logits are what the softmax would be applied to."""
    return {"logits": _llama(config, weights, ids)["logits"].log_softmax(-1)}


def rotation_overwrites_its_first_half(config, weights, ids):
    """Your rotation computes the second entry of a pair from the first one after that has been rotated. Both are
    computed from the old pair."""
    return _llama(config, weights, ids, rotations=(_rotate_into_itself, _rotate_into_itself, _same))


def exponent_over_hidden_size(config, weights, ids):
    """Your exponents are −2t / hidden_size. A pair belongs to one head, so head_dim takes the place of hidden_size."""
    theta = config["rope_theta"] ** (config["head_dim"] / config["hidden_size"])
    return _llama(config | {"rope_theta": theta}, weights, ids)


def first_layer_for_all(config, weights, ids):
    """All layers of your model use the weights of layer 0. Each has weights of its own."""
    own = {name: weights[re.sub(r"layers\.\d+", "layers.0", name)] for name in weights}
    return _llama(config, own, ids)


def first_key_value_head_for_all(config, weights, ids):
    """All your query heads use key-value head 0. Only the first h / g of them do."""
    return _llama(config, weights, ids, share=lambda x, n: x[:1].repeat(n * len(x), 1, 1))


def mask_hides_the_token_itself(config, weights, ids):
    """Your mask also hides each token from itself, which leaves nothing for the first token to see. Only the tokens
    after a token are hidden from it."""
    return _llama(
        config, weights, ids, hide=lambda scores: scores.masked_fill(torch.ones_like(scores).triu() > 0, -1e30)
    )


def mask_leaves_the_first_token_nothing(config, weights, ids):
    """Your mask also hides each token from itself: all scores of the first token are minus infinity, and their softmax
    is NaN. Only the tokens after a token are hidden from it."""
    hide = lambda scores: scores.masked_fill(torch.ones_like(scores).triu() > 0, -math.inf)  # noqa: E731
    return _llama(config, weights, ids, hide=hide)


def mask_transposed(config, weights, ids):
    """Your scores are transposed, or the mask and the softmax take the wrong axis: each row of the scores belongs to a
    query, which sees the keys up to its own position."""
    return _llama(config, weights, ids, hide=lambda s: s.mT.masked_fill(torch.ones_like(s).triu(1) > 0, -math.inf))


def attention_normed_before_the_sum(config, weights, ids):
    """You apply post_attention_layernorm to the output of attention before it is added to x. It is the norm of x after
    this addition, and only the feed-forward layer reads it."""

    def block(x, attend, feed, first, second):
        x = x + second(attend(first(x)))
        return x + feed(x)

    return _llama(config, weights, ids, block=block)


def second_norm_of_the_attention(config, weights, ids):
    """Your second norm reads the output of attention. It should read x, to which this output has been added."""

    def block(x, attend, feed, first, second):
        y = attend(first(x))
        return x + y + feed(second(y))

    return _llama(config, weights, ids, block=block)
