def _after(logits):
    return logits.argmax(1).tolist()


def _forced(logits, start, target):
    return [_after(logits)[token] for token in [start, *target[:-1]]]


def _free(logits, start, end, limit):
    free, token = [], start
    while len(free) < limit:
        token = _after(logits)[token]
        free.append(token)
        if token == end:
            break
    return free


def forced_reads_its_own_tokens(logits, start, end, target, max_new_tokens):
    """With teacher forcing, your decoder reads its own tokens. It should read those of the target, whatever it
    predicted."""
    free, token = [], start
    for _ in target:
        token = _after(logits)[token]
        free.append(token)
    return free, _free(logits, start, end, max_new_tokens)


def free_reads_the_target(logits, start, end, target, max_new_tokens):
    """When it generates, your decoder still reads the target. It should read what it has written."""
    return _forced(logits, start, target), _forced(logits, start, target)


def forced_not_shifted(logits, start, end, target, max_new_tokens):
    """With teacher forcing, your decoder reads the whole target without `start`. At each position it should read the
    token before the one that it predicts."""
    return [_after(logits)[token] for token in target], _free(logits, start, end, max_new_tokens)


def forced_reads_the_end(logits, start, end, target, max_new_tokens):
    """Your first list has one prediction too many: nothing follows the end of the target, so its last token is not
    read."""
    return [_after(logits)[token] for token in [start, *target]], _free(logits, start, end, max_new_tokens)


def forced_without_start(logits, start, end, target, max_new_tokens):
    """Your first list lacks the prediction of the first token, which the decoder makes when it reads `start`."""
    return [_after(logits)[token] for token in target[:-1]], _free(logits, start, end, max_new_tokens)


def does_not_stop_at_the_end(logits, start, end, target, max_new_tokens):
    """Your decoder goes on after it has written `end`. It should stop there."""
    return _forced(logits, start, target), _free(logits, start, -1, max_new_tokens)


def end_left_out(logits, start, end, target, max_new_tokens):
    """Your second list lacks the end token. The decoder writes it, so it is part of the list."""
    free = _free(logits, start, end, max_new_tokens)
    return _forced(logits, start, target), free[: -1 if free[-1] == end else None]


def start_in_the_list(logits, start, end, target, max_new_tokens):
    """Your second list begins with `start`. It is given to the decoder, which did not write it."""
    return _forced(logits, start, target), [start, *_free(logits, start, end, max_new_tokens)]


def start_counted(logits, start, end, target, max_new_tokens):
    """Your decoder stops one token too early. `start` does not count among the tokens that it may write."""
    return _forced(logits, start, target), _free(logits, start, end, max_new_tokens - 1)


def one_token_too_many(logits, start, end, target, max_new_tokens):
    """Your decoder may write one token too many. Is a comparison off by one?"""
    return _forced(logits, start, target), _free(logits, start, end, max_new_tokens + 1)


def as_long_as_the_target(logits, start, end, target, max_new_tokens):
    """Your decoder writes at most as many tokens as the target has. It does not know the target when it generates; only
    `end` and `max_new_tokens` stop it."""
    return _forced(logits, start, target), _free(logits, start, end, len(target))


def columns_instead_of_rows(logits, start, end, target, max_new_tokens):
    """You take the largest logit of each column. Row `t` holds the logits for the token after `t`."""
    return _forced(logits.T, start, target), _free(logits.T, start, end, max_new_tokens)


def lists_exchanged(logits, start, end, target, max_new_tokens):
    """Your two lists are exchanged: teacher forcing comes first."""
    return _free(logits, start, end, max_new_tokens), _forced(logits, start, target)


def first_target_for_start(logits, start, end, target, max_new_tokens):
    """Your decoder begins to write after the first token of the target. It begins with `start`."""
    return _forced(logits, start, target), _free(logits, target[0], end, max_new_tokens)


def smallest_logit(logits, start, end, target, max_new_tokens):
    """Your decoder writes the token with the smallest logit. Greedy decoding takes the largest."""
    return _forced(-logits, start, target), _free(-logits, start, end, max_new_tokens)


def no_longer_than_the_target(logits, start, end, target, max_new_tokens):
    """Your decoder writes no more tokens than the target has. It does not know the target when it generates; only `end`
    and `max_new_tokens` stop it."""
    return _forced(logits, start, target), _free(logits, start, end, min(max_new_tokens, len(target)))


def forced_stops_at_the_end(logits, start, end, target, max_new_tokens):
    """Your first list stops once the decoder has predicted `end`. With teacher forcing there is a prediction for every
    position of the target."""
    forced = _forced(logits, start, target)
    cut = forced.index(end) + 1 if end in forced else len(forced)
    return forced[:cut], _free(logits, start, end, max_new_tokens)
