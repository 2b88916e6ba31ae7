import torch


class _Step:
    """One step, whose parts a mistake can replace."""

    def __init__(self, *arguments):
        self.batch, self.n_new, self.n_tokens, self.n_parameters, self.n_layers, self.n_heads = arguments[:6]
        self.n_kv_heads, self.d_head, self.n_bytes, self.peak, self.bandwidth = arguments[6:]
        new = self.batch * self.n_new
        self.flops = [2 * self.n_parameters * new, 4 * new * self.n_layers * self.n_heads * self.n_tokens * self.d_head]
        cache = 2 * self.batch * self.n_layers * self.n_kv_heads * self.n_tokens * self.d_head
        self.moved = [self.n_bytes * self.n_parameters, self.n_bytes * cache]

    def times(self):
        return [(f / self.peak, m / self.bandwidth) for f, m in zip(self.flops, self.moved, strict=True)]

    def answer(self, seconds=None, words=None, new=None):
        intensities = torch.tensor([f / m for f, m in zip(self.flops, self.moved, strict=True)])
        words = words or ["compute" if computing > moving else "memory" for computing, moving in self.times()]
        seconds = sum(map(max, self.times())) if seconds is None else seconds
        return intensities, words, (self.batch * self.n_new if new is None else new) / seconds


def weights_for_each_text(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your weights are read again for each text. They are read once for the whole batch."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[0] = step.moved[0] * batch
    return step.answer()


def weights_for_each_token(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your weights are read again for each new token. They are read once in a step."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[0] = step.moved[0] * batch * n_new
    return step.answer()


def one_cache_for_all(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """All of your texts read the same cache. Each text has its own."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[1] = step.moved[1] // batch
    return step.answer()


def query_heads_in_the_cache(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your cache has keys and values for every query head. It has `n_kv_heads` heads."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[1] = step.moved[1] // n_kv_heads * n_heads
    return step.answer()


def operations_of_the_shared_heads(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your attention counts operations for the key-value heads. Each query head has its own scores."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.flops[1] = step.flops[1] // n_heads * n_kv_heads
    return step.answer()


def keys_alone(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth):
    """Your attention reads the keys alone. It reads the values, too."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[1] = step.moved[1] // 2
    return step.answer()


def half_the_operations_of_attention(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your attention counts half of its operations. There are 4 for each feature: a product and an addition for the
    scores, and the same for the output. A causal mask saves none of them here."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.flops[1] = step.flops[1] // 2
    return step.answer()


def cache_for_each_new_token(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your caches are read again for each new token. They are read once in a step."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved[1] = step.moved[1] * n_new
    return step.answer()


def batch_not_in_the_operations(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your weights work on one text. All texts of the batch pass through them."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.flops[0] = step.flops[0] // batch
    return step.answer()


def new_tokens_not_in_the_operations(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your operations count one new token for each text. There are `n_new`."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.flops = [f // n_new for f in step.flops]
    return step.answer()


def one_operation_for_each_weight(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your weights take one operation for each token. A product and an addition are two."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.flops[0] = step.flops[0] // 2
    return step.answer()


def bytes_forgotten(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """You count numbers where the statement asks for bytes: each number takes `n_bytes` bytes."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    step.moved = [m // n_bytes for m in step.moved]
    return step.answer()


def words_exchanged(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities are right, but your words are exchanged. A part whose second term is the larger one waits for
    memory."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    words = {"memory": "compute", "compute": "memory"}
    return step.answer(words=[words[word] for word in step.answer()[1]])


def times_added(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth):
    """Your intensities and words are right, but a part takes the larger of its two times, and not their sum."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(seconds=sum(map(sum, step.times())))


def longer_part_alone(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you take the time of the longer part alone. The parts follow each
    other."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(seconds=max(map(max, step.times())))


def smaller_term(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth):
    """Your intensities and words are right, but you take the smaller of the two terms for each part."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(seconds=sum(map(min, step.times())))


def maximum_of_the_sums(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you compare the sums of both parts. Each part has a maximum of
    its own."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(seconds=max(map(sum, zip(*step.times(), strict=True))))


def only_memory(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth):
    """Your intensities and words are right, but your time is always that of moving bytes."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(seconds=sum(moving for _, moving in step.times()))


def tokens_of_one_text(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you count the new tokens of one text. All texts get new tokens."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(new=n_new)


def steps_in_a_second(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you return the steps in a second. Each step makes several tokens."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(new=1)


def seconds_returned(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you return the seconds of the step. Return the tokens in a second."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    seconds = sum(map(max, step.times()))
    return *step.answer()[:2], seconds


def attention_first(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but those of attention come first."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    intensities, words, speed = step.answer()
    return intensities.flip(0), words[::-1], speed


def texts_in_a_second(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities and words are right, but you count one new token for each text. Each text gets `n_new`."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    return step.answer(new=batch)


def bytes_for_each_operation(
    batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth
):
    """Your intensities are bytes divided by operations. Divide the operations by the bytes."""
    step = _Step(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth)
    intensities, words, speed = step.answer()
    return 1 / intensities, words, speed
