import torch

from llm_anatomy.shapes import Float, Tensor


def forced_and_free(
    logits: Float[Tensor, "n_vocab n_vocab"], start: int, end: int, target: list[int], max_new_tokens: int
) -> tuple[list[int], list[int]]:
    """Return what the decoder predicts with teacher forcing, and what it writes freely."""
    after = logits.argmax(1).tolist()  # the next token, by the last one
    forced = [after[token] for token in [start, *target[:-1]]]
    free, token = [], start
    while len(free) < max_new_tokens:
        token = after[token]
        free.append(token)
        if token == end:
            break
    return forced, free


def accepted_tensors(logits, start, end, target, max_new_tokens):
    """Predicts all positions at once, writes as many tokens as it may, and cuts the text at its end."""
    inputs = torch.tensor([start, *target])[:-1]
    written = torch.empty(max_new_tokens, dtype=torch.long)
    token = torch.tensor(start)
    for i in range(max_new_tokens):
        token = logits[token].softmax(-1).argmax()
        written[i] = token
    ends = (written == end).nonzero()
    written = written[: ends[0, 0] + 1] if len(ends) else written
    return logits[inputs].argmax(-1).tolist(), written.tolist()


def accepted_recursion(logits, start, end, target, max_new_tokens):
    """Writes a token, and leaves the rest of the text to itself."""
    first = int(logits[start].topk(1).indices)
    rest = []
    if first != end and max_new_tokens > 1:
        rest = accepted_recursion(logits, first, end, [end], max_new_tokens - 1)[1]
    forced = [max(range(len(logits)), key=logits[token].tolist().__getitem__) for token in (start, *target[:-1])]
    return forced, [first, *rest]


def table(after, n_vocab, generator):
    """Logits of a decoder that writes after[t] after token t."""
    logits = torch.rand(n_vocab, n_vocab, generator=generator).mul(9).round()
    logits[torch.arange(n_vocab), torch.tensor(after)] += 10
    return logits


def cases(generator):
    def of(after, start, end, target, max_new_tokens):
        logits = table(after, len(after), generator)
        return {"logits": logits, "start": start, "end": end, "target": target, "max_new_tokens": max_new_tokens}

    return [
        of([2, 0, 3, 5, 1, 4], 0, 1, [2, 3, 4, 1], 10),  # one mistake, after token 3: it goes on with 5 and comes back
        of([1, 0], 1, 0, [0], 3),
        of([1, 2, 3, 1, 0], 0, 4, [1, 2, 3, 4], 5),  # never ends
        of([3, 0, 4, 2, 4, 5, 1], 0, 1, [3, 2, 4, 6, 1], 4),  # repeats itself
        of([2, 1, 1], 0, 1, [2, 2, 1], 2),  # ends with the last token that it may write
        of([0, 1, 2, 3], 3, 0, [2, 1, 0], 2),
    ]


def property_forced_is_as_long_as_the_target(answer, generator):
    logits = table([1, 2, 3, 0], 4, generator)
    forced, _ = answer(logits, 0, 3, [1, 1, 2, 0, 3], 2)
    assert len(forced) == 5, (
        f"With teacher forcing there is a prediction for each of the five targets. You return {len(forced)}."
    )


def property_a_decoder_without_mistakes(answer, generator):
    forced, free = (list(map(int, each)) for each in answer(table([1, 2, 3, 0], 4, generator), 0, 3, [1, 2, 3], 9))
    assert forced == free == [1, 2, 3], (
        "If the decoder makes no mistake, both lists should be the target. Yours are not."
    )


def property_small_differences(answer, generator):
    logits = torch.zeros(30, 30)
    logits[:, 7] = 0.1
    forced, free = answer(logits, 0, 29, [*range(10, 30)], 20)
    assert {*map(int, forced), *map(int, free)} == {7}, (
        "Where the same token is ahead of all others by 0.1 in every row, your lists hold other tokens as well. Greedy "
        "decoding always writes the token with the largest logit, and draws none at random."
    )


def hidden_cases(generator):
    def drawn(n_vocab, n_tokens, max_new_tokens):
        start, end = torch.randperm(n_vocab, generator=generator)[:2].tolist()
        logits = torch.randn(n_vocab, n_vocab, generator=generator)
        target = torch.randint(n_vocab, (n_tokens,), generator=generator).tolist() + [end]
        return {"logits": logits, "start": start, "end": end, "target": target, "max_new_tokens": max_new_tokens}

    chain = table([*range(1, 9), 0], 9, generator)
    drawn_ones = [drawn(12, 7, 9), drawn(6, 5, 4), drawn(20, 9, 30), drawn(5, 3, 1)]
    long = {"logits": chain, "start": 2, "end": 8, "target": [3, 3, 4, 5, 8], "max_new_tokens": 20}
    exact = {"logits": chain, "start": 0, "end": 5, "target": [1, 2, 5], "max_new_tokens": 5}
    short = {"logits": chain, "start": 1, "end": 8, "target": [2, 3, 7, 8], "max_new_tokens": 4}
    return [*drawn_ones, long, exact, short]
