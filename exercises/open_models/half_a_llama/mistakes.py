import torch
import torch.nn.functional as F


def _norm(z):
    return z / (z.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def _parts(w_o, w_gate, w_up, w_down):
    def attention(z):
        weights = torch.ones(len(z), len(z)).tril()
        return weights / weights.sum(-1, keepdim=True) @ z @ w_o

    def feed_forward(z):
        return (F.silu(z @ w_gate) * (z @ w_up)) @ w_down

    return attention, feed_forward


def norm_removed(x, w_o, w_gate, w_up, w_down):
    """The sum goes on unchanged now, but the feed-forward layer reads it without a norm."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = x + attention(_norm(x))
    return x + feed_forward(x)


def both_norms_on_the_stream(x, w_o, w_gate, w_up, w_down):
    """Now both norms are on the residual path: the first sublayer's sum is also taken of what the norm returns."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = _norm(x)
    x = x + attention(x)
    x = _norm(x)
    return x + feed_forward(x)


def first_norm_on_the_stream(x, w_o, w_gate, w_up, w_down):
    """The second sublayer is right now, but the first adds to what the norm returns instead of adding to its input."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = _norm(x)
    x = x + attention(x)
    return x + feed_forward(_norm(x))


def post_norm(x, w_o, w_gate, w_up, w_down):
    """Your norms follow the sums, as in the original Transformer."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = _norm(x + attention(x))
    return _norm(x + feed_forward(x))


def norm_of_the_second_sum(x, w_o, w_gate, w_up, w_down):
    """Your second norm follows the sum. It should precede the feed-forward layer."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = x + attention(_norm(x))
    return _norm(x + feed_forward(x))


def one_norm_more(x, w_o, w_gate, w_up, w_down):
    """The two sublayers are right now, but there is one more norm after the second sum."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = x + attention(_norm(x))
    return _norm(x + feed_forward(_norm(x)))


def norm_after_the_sublayer(x, w_o, w_gate, w_up, w_down):
    """Your second norm is applied to what the feed-forward layer returns. It should be applied to what it reads."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = x + attention(_norm(x))
    return x + _norm(feed_forward(x))


def parallel(x, w_o, w_gate, w_up, w_down):
    """Your feed-forward layer reads the input of the block, as in a parallel block. LLaMA's reads the sum after
    attention."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    return x + attention(_norm(x)) + feed_forward(_norm(x))


def attention_lost(x, w_o, w_gate, w_up, w_down):
    """Your second sum adds to the input of the block, so that what attention has added gets lost."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    return x + feed_forward(_norm(x + attention(_norm(x))))


def no_second_sum(x, w_o, w_gate, w_up, w_down):
    """Your block returns what the feed-forward layer returns. It should be added to the sum."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    return feed_forward(_norm(x + attention(_norm(x))))


def layer_norm(x, w_o, w_gate, w_up, w_down):
    """Your norms are layer norms. LLaMA's RMSNorm does not subtract the mean."""
    attention, feed_forward = _parts(w_o, w_gate, w_up, w_down)
    x = x + attention(F.layer_norm(x, x.shape[-1:]))
    return x + feed_forward(F.layer_norm(x, x.shape[-1:]))
