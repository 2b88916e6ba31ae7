import torch


def _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=None, norm=None, bound=None):
    if product is None:
        product = 2 * n_tokens * d_in * d_out / (n_bytes * (n_tokens * d_in + d_in * d_out + n_tokens * d_out))
    if norm is None:
        norm = 4 * n_tokens * d_in / (n_bytes * (2 * n_tokens * d_in + d_in))
    bound = peak / bandwidth if bound is None else bound
    return torch.tensor([product, norm]), ["memory" if each < bound else "compute" for each in (product, norm)]


def words_exchanged(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but your words are exchanged. An operator with few operations for each byte waits for
    memory."""
    values, words = _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)
    return values, [{"memory": "compute", "compute": "memory"}[word] for word in words]


def bandwidth_over_peak(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but you compare them with the bandwidth divided by the peak. It is the other way
    round."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, bound=bandwidth / peak)


def compared_with_too_large_a_number(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but you compare them with too large a number. `bandwidth` is in bytes already, so
    `n_bytes` has no place in this comparison."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, bound=peak * n_bytes / bandwidth)


def compared_with_too_small_a_number(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but you compare them with too small a number. `bandwidth` is in bytes already, so
    `n_bytes` has no place in this comparison."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, bound=peak / n_bytes / bandwidth)


def the_usual_words(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but your words are the same in every case. Compare each intensity with that of the
    processor."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0], ["compute", "memory"]


def always_memory(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but you always say "memory". Compare each intensity with that of the processor."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0], ["memory", "memory"]


def always_compute(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your intensities are right, but you always say "compute". Compare each intensity with that of the processor."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0], ["compute", "compute"]


def additions_not_counted(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The norm is right, but the intensity of your product is half of what it should be. Each multiplication comes with
    an addition."""
    right = _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0][0].item()
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=right / 2)


def weights_not_read(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The norm is right, but the product does not count the bytes of the weight matrix."""
    product = 2 * n_tokens * d_in * d_out / (n_bytes * (n_tokens * d_in + n_tokens * d_out))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=product)


def product_not_written(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The norm is right, but the product does not count the bytes of its result, which is written."""
    product = 2 * n_tokens * d_in * d_out / (n_bytes * (n_tokens * d_in + d_in * d_out))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=product)


def tokens_not_read(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The norm is right, but the product does not count the bytes of the table of tokens."""
    product = 2 * n_tokens * d_in * d_out / (n_bytes * (d_in * d_out + n_tokens * d_out))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=product)


def weights_alone(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The norm is right, but the product counts the bytes of the weight matrix alone. The table is read as well, and
    the result is written."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, product=2 * n_tokens / n_bytes)


def norm_not_written(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but the norm moves more than you count: it reads the table *and* writes one."""
    norm = 4 * n_tokens * d_in / (n_bytes * (n_tokens * d_in + d_in))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=norm)


def gain_not_read(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but the norm does not count the bytes of its gain."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=2 / n_bytes)


def gain_for_each_token(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but the norm reads its gain again for each token. It is read once."""
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=4 / 3 / n_bytes)


def table_read_twice(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but your norm moves three tables. The statement counts two, one read and one written."""
    norm = 4 * n_tokens * d_in / (n_bytes * (3 * n_tokens * d_in + d_in))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=norm)


def one_gain_for_all(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but the gain of your norm is a single number. It has one for each column."""
    norm = 4 * n_tokens * d_in / (n_bytes * (2 * n_tokens * d_in + 1))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=norm)


def one_operation_in_the_norm(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """The product is right, but the intensity of the norm is a quarter of what it should be. Count four operations for
    each number."""
    norm = n_tokens * d_in / (n_bytes * (2 * n_tokens * d_in + d_in))
    return _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, norm=norm)


def operations_for_each_number(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """You divide by the number of numbers that are moved. Divide by their bytes."""
    values = n_bytes * _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0]
    return values, _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, *values.tolist())[1]


def bytes_for_each_operation(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your words are right, but your two numbers are upside down: they are bytes for each operation."""
    values, words = _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)
    return 1 / values, words


def upside_down(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your two numbers are bytes for each operation, and your words follow from them. An intensity is the number of
    operations for each byte."""
    values = 1 / _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0]
    return values, _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, *values.tolist())[1]


def multiplied_by_the_bytes(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """You multiply by the bytes of a number. The more bytes a number has, the lower is the intensity."""
    values = n_bytes**2 * _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0]
    return values, _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, *values.tolist())[1]


def in_bits(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """You divide by bits. A byte has eight of them, and the statement asks for bytes."""
    values = _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)[0] / 8
    return values, _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth, *values.tolist())[1]


def order_exchanged(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Your numbers are right, but not their order: the matrix product comes first, and then the norm."""
    values, words = _answer(n_tokens, d_in, d_out, n_bytes, peak, bandwidth)
    return values.flip(0), words[::-1]
