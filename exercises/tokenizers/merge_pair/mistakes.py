def first_pair_only(ids, left, right, new):
    """You replace only the first pair. Replace every pair in the list."""
    for i in range(len(ids) - 1):
        if ids[i : i + 2] == [left, right]:
            return [*ids[:i], new, *ids[i + 2 :]]
    return list(ids)


def from_the_right(ids, left, right, new):
    """When pairs overlap you replace the one on the right. Go through the list from left to right."""
    merged, i = [], len(ids) - 1
    while i >= 0:
        if i > 0 and ids[i - 1 : i + 1] == [left, right]:
            merged.append(new)
            i -= 2
        else:
            merged.append(ids[i])
            i -= 1
    return merged[::-1]


def right_token_kept(ids, left, right, new):
    """You put the new token in place of the left one and keep the right one. Both are replaced."""
    return [new if ids[i : i + 2] == [left, right] else token for i, token in enumerate(ids)]


def token_used_twice(ids, left, right, new):
    """You use a token in two pairs: after a pair you go on with its second token. Go on after both."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] == [left, right]:
            merged.append(new)
            i += 1 + (ids[i + 1 : i + 3] != [left, right])
        else:
            merged.append(ids[i])
            i += 1
    return merged


def either_order(ids, left, right, new):
    """You also replace the pair in the opposite order. The left token has to come first."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] in ([left, right], [right, left]):
            merged.append(new)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def pair_left_out(ids, left, right, new):
    """You remove the pair but do not put the new token in its place."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] == [left, right]:
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def new_token_twice(ids, left, right, new):
    """You replace each of the two tokens by the new one. The pair becomes a single token, so the list gets shorter."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] == [left, right]:
            merged += [new, new]
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def last_token_lost(ids, left, right, new):
    """You lose the last token when it is not part of a pair. Does your loop end too early?"""
    merged, i = [], 0
    while i < len(ids) - 1:
        if ids[i : i + 2] == [left, right]:
            merged.append(new)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def next_token_skipped(ids, left, right, new):
    """You skip the token after a pair. Go on with the token that follows the two."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] == [left, right]:
            merged.append(new)
            i += 3
        else:
            merged.append(ids[i])
            i += 1
    return merged


def either_token(ids, left, right, new):
    """You replace every token that is left or right, whatever stands beside it. Replace them only side by side."""
    return [new if token in (left, right) else token for token in ids]


def digits_of_other_tokens(ids, left, right, new):
    """You also replace digits within other tokens: the list [17, 7] does not contain the pair (7, 7). Compare whole
    numbers."""
    return [int(token) for token in " ".join(map(str, ids)).replace(f"{left} {right}", str(new)).split()]


def only_one_of_two_pairs_in_a_row(ids, left, right, new):
    """Where a pair follows directly on another, you replace only the first. Go on right after a pair."""
    text = f" {' '.join(map(str, ids))} ".replace(f" {left} {right} ", f" {new} ")
    return list(map(int, text.split()))


def fixed_pairs(ids, left, right, new):
    """You cut the list into pairs at the even positions. A pair may begin at any position."""
    merged = []
    for i in range(0, len(ids), 2):
        merged += [new] if ids[i : i + 2] == [left, right] else ids[i : i + 2]
    return merged
