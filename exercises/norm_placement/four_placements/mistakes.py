import torch
import torch.nn.functional as F


def _norm(z):
    return F.rms_norm(z, z.shape[-1:])


def _same(z):
    return z


def _f(z, w_1, w_2):
    return torch.tanh(z @ w_1) @ w_2


def _stream(x, w_1, w_2, placement, norm=_norm, f=_f):
    before = norm if placement in ("pre", "sandwich") else _same
    after = norm if placement in ("post-sublayer", "sandwich") else _same
    last = norm if placement == "post" else _same
    return last(x + after(f(before(x), w_1, w_2)))


def pre_and_post_exchanged(x, w_1, w_2, placement):
    """Your "pre" and "post" are exchanged. Pre and post say whether the norm stands before or after the sublayer."""
    return _stream(x, w_1, w_2, {"pre": "post", "post": "pre"}.get(placement, placement))


def pre_and_post_sublayer_exchanged(x, w_1, w_2, placement):
    """Your "pre" and "post-sublayer" are exchanged. In which of the two does the sublayer read a norm?"""
    return _stream(x, w_1, w_2, {"pre": "post-sublayer", "post-sublayer": "pre"}.get(placement, placement))


def post_and_post_sublayer_exchanged(x, w_1, w_2, placement):
    """Your "post" and "post-sublayer" are exchanged. Which one normalizes the whole sum, and which one only what is
    added?"""
    return _stream(x, w_1, w_2, {"post": "post-sublayer", "post-sublayer": "post"}.get(placement, placement))


def post_for_post_sublayer(x, w_1, w_2, placement):
    """Your "post-sublayer" is the same as "post". In OLMo 2 only the output of the sublayer is normalized, and the
    stream is not."""
    return _stream(x, w_1, w_2, placement.removesuffix("-sublayer"))


def post_sublayer_for_post(x, w_1, w_2, placement):
    """Your "post" is the same as "post-sublayer". In the original Transformer the whole sum is normalized."""
    return _stream(x, w_1, w_2, "post-sublayer" if placement == "post" else placement)


def pre_for_sandwich(x, w_1, w_2, placement):
    """Only your "sandwich" is wrong: it has the norm before the sublayer, but not the one after it."""
    return _stream(x, w_1, w_2, "pre" if placement == "sandwich" else placement)


def post_sublayer_for_sandwich(x, w_1, w_2, placement):
    """Only your "sandwich" is wrong: it has the norm after the sublayer, but not the one before it."""
    return _stream(x, w_1, w_2, "post-sublayer" if placement == "sandwich" else placement)


def sandwich_around_the_sum(x, w_1, w_2, placement):
    """Only your "sandwich" is wrong: its second norm is applied to the sum. It belongs to the output of the sublayer,
    before the addition."""
    if placement == "sandwich":
        return _norm(x + _f(_norm(x), w_1, w_2))
    return _stream(x, w_1, w_2, placement)


def sum_of_norms(x, w_1, w_2, placement):
    """Only your "post" is wrong: it adds two norms. The norm is applied once, to the sum."""
    return _norm(x) + _norm(_f(x, w_1, w_2)) if placement == "post" else _stream(x, w_1, w_2, placement)


def norm_of_the_stream_added(x, w_1, w_2, placement):
    """Your "post" and "post-sublayer" are right. In the other two, you add the sublayer's output to the norm of the
    stream. Only the sublayer reads this norm; the output is added to the stream itself."""
    if placement in ("pre", "sandwich"):
        return _stream(_norm(x), w_1, w_2, placement)
    return _stream(x, w_1, w_2, placement)


def norm_of_the_stream_added_in_pre(x, w_1, w_2, placement):
    """Only your "pre" is wrong: you add the sublayer's output to the norm of the stream. Only the sublayer reads this
    norm; the output is added to the stream itself."""
    return _stream(_norm(x) if placement == "pre" else x, w_1, w_2, placement)


def no_residual(x, w_1, w_2, placement):
    """You return what the sublayer adds, in all four positions. Add it to the stream."""
    before = _norm if placement in ("pre", "sandwich") else _same
    after = _same if placement == "pre" else _norm
    return after(_f(before(x), w_1, w_2))


def no_residual_after_a_norm(x, w_1, w_2, placement):
    """Your "post" and "pre" are right. In the other two, you return the norm of the sublayer's output. Add it to the
    stream."""
    right = _stream(x, w_1, w_2, placement)
    return right if placement in ("post", "pre") else right - x


def no_residual_in_post(x, w_1, w_2, placement):
    """Only your "post" is wrong: the stream is missing from the sum that is normalized."""
    return _norm(_f(x, w_1, w_2)) if placement == "post" else _stream(x, w_1, w_2, placement)


def layer_norm(x, w_1, w_2, placement):
    """Your norms are in the right positions, but they subtract the mean. The norm of the statement does not."""
    return _stream(x, w_1, w_2, placement, lambda z: F.layer_norm(z, z.shape[-1:]))


def length_of_one(x, w_1, w_2, placement):
    """Your norms are in the right positions, but they divide by the length of a token. RMSNorm divides by its root mean
    square."""
    return _stream(x, w_1, w_2, placement, lambda z: F.normalize(z, dim=-1))


def over_all_tokens(x, w_1, w_2, placement):
    """Your norms are in the right positions, but they take one root mean square for all tokens. Each token has its
    own."""
    return _stream(x, w_1, w_2, placement, lambda z: F.rms_norm(z, z.shape))


def over_the_tokens(x, w_1, w_2, placement):
    """Your norms are in the right positions, but they run over the tokens. They should run over the features of a
    token."""
    return _stream(x, w_1, w_2, placement, lambda z: _norm(z.T).T)


def no_tanh(x, w_1, w_2, placement):
    """Your norms are in the right positions, but the sublayer lacks its tanh."""
    return _stream(x, w_1, w_2, placement, f=lambda z, a, b: z @ a @ b)


def relu(x, w_1, w_2, placement):
    """Your norms are in the right positions, but the sublayer uses a ReLU. Here it is a tanh."""
    return _stream(x, w_1, w_2, placement, f=lambda z, a, b: (z @ a).relu() @ b)


def no_norm(x, w_1, w_2, placement):
    """You add the output of the sublayer to the stream, without any norm, whatever the placement is."""
    return x + _f(x, w_1, w_2)


def always_post(x, w_1, w_2, placement):
    """You always return the post-norm result, whatever `placement` says."""
    return _stream(x, w_1, w_2, "post")


def always_pre(x, w_1, w_2, placement):
    """You always return the pre-norm result, whatever `placement` says."""
    return _stream(x, w_1, w_2, "pre")


def stream_changed_in_place(x, w_1, w_2, placement):
    """Your numbers are right, but you also change the caller's stream. Make a new tensor instead of using `+=`."""
    result = _stream(x, w_1, w_2, placement)
    x.copy_(result)
    return result


def pre_for_post_sublayer(x, w_1, w_2, placement):
    """Only your "post-sublayer" is wrong: it is the same as "pre". In OLMo 2 the sublayer reads the stream itself, and
    its output is normalized."""
    return _stream(x, w_1, w_2, "pre" if placement == "post-sublayer" else placement)


def sandwich_with_a_third_norm(x, w_1, w_2, placement):
    """Only your "sandwich" is wrong: it has a third norm, on the sum. The sum stays as it is."""
    result = _stream(x, w_1, w_2, placement)
    return _norm(result) if placement == "sandwich" else result


def tanh_at_the_end(x, w_1, w_2, placement):
    """Your norms are in the right positions, but the tanh of the sublayer comes after both matrices. It stands between
    them."""
    return _stream(x, w_1, w_2, placement, f=lambda z, a, b: torch.tanh(z @ a @ b))
