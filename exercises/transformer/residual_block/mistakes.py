import torch
import torch.nn.functional as F


def _norm(x):
    return F.rms_norm(x, x.shape[-1:])


def _attend(x, q, k, v, o):
    return torch.softmax((x @ q) @ (x @ k).T / k.shape[1] ** 0.5, -1) @ (x @ v) @ o


def _feed(x, w_1, w_2):
    return (x @ w_1).relu() @ w_2


def first_part_alone(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Attention is mended, but the feed-forward layer still adds to the output of its norm. The mistake is in both."""
    x = _norm(x + _attend(_norm(x), w_query, w_key, w_value, w_output))
    return x + _feed(x, w_1, w_2)


def second_part_alone(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """The feed-forward layer is mended, but attention still adds to the output of its norm. The mistake is in both."""
    x = _norm(x)
    x = x + _attend(x, w_query, w_key, w_value, w_output)
    return x + _feed(_norm(x), w_1, w_2)


def no_norms(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You have taken the norms out. The stream is untouched now, but the parts should still read a normed
    copy of it."""
    x = x + _attend(x, w_query, w_key, w_value, w_output)
    return x + _feed(x, w_1, w_2)


def post_norm(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You have moved the norms behind the sums. That is a post-norm block, and its norms still stand on the stream."""
    x = _norm(x + _attend(x, w_query, w_key, w_value, w_output))
    return _norm(x + _feed(x, w_1, w_2))


def norm_of_the_output(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You norm what the parts return. The stream is untouched now, but the parts should read a normed copy of it."""
    x = x + _norm(_attend(x, w_query, w_key, w_value, w_output))
    return x + _norm(_feed(x, w_1, w_2))


def no_sums(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You have taken out the sums. They are the residual connections, and they were right; what is added to was not."""
    return _feed(_norm(_attend(_norm(x), w_query, w_key, w_value, w_output)), w_1, w_2)


def no_first_sum(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You have taken out the sum of attention. It is a residual connection, and it was right; what is added to was
    not."""
    x = _attend(_norm(x), w_query, w_key, w_value, w_output)
    return x + _feed(_norm(x), w_1, w_2)


def no_second_sum(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You have taken out the sum of the feed-forward layer. It is a residual connection, and it was right; what is
    added to was not."""
    x = x + _attend(_norm(x), w_query, w_key, w_value, w_output)
    return _feed(_norm(x), w_1, w_2)


def norm_added_as_well(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You add three things in each part: the stream, its norm, and the output of the part. The normed copy is only
    read, and never added."""
    x = x + _norm(x) + _attend(_norm(x), w_query, w_key, w_value, w_output)
    return x + _norm(x) + _feed(_norm(x), w_1, w_2)


def layer_norm(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """The sums are right, but you have changed the norm: it subtracts the mean now, as LayerNorm does. The norm was
    right."""
    x = x + _attend(F.layer_norm(x, x.shape[-1:]), w_query, w_key, w_value, w_output)
    return x + _feed(F.layer_norm(x, x.shape[-1:]), w_1, w_2)


def both_parts_read_the_input(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Your feed-forward layer reads the norm of the block's input. It should read the norm of the stream to which
    attention has already been added."""
    normed = _norm(x)
    return x + _attend(normed, w_query, w_key, w_value, w_output) + _feed(normed, w_1, w_2)


def input_added_twice(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """You add the input of the block at the end, beside the sums that were there. Mend the sums themselves."""
    start, x = x, _norm(x)
    x = _norm(x + _attend(x, w_query, w_key, w_value, w_output))
    return start + x + _feed(x, w_1, w_2)


def second_sum_starts_again(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Your second sum adds to the block's input, so what attention has added is lost."""
    after = x + _attend(_norm(x), w_query, w_key, w_value, w_output)
    return x + _feed(_norm(after), w_1, w_2)


def values_from_the_stream(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Your values are made from the stream itself. Queries, keys and values all come from the normed copy."""
    normed = _norm(x)
    share = torch.softmax((normed @ w_query) @ (normed @ w_key).T / w_key.shape[1] ** 0.5, -1)
    x = x + share @ (x @ w_value) @ w_output
    return x + _feed(_norm(x), w_1, w_2)


def feed_forward_reads_the_stream(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """The sums are right, but your feed-forward layer reads the stream itself instead of its norm."""
    x = x + _attend(_norm(x), w_query, w_key, w_value, w_output)
    return x + _feed(x, w_1, w_2)
