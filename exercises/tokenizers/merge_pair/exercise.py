def merge_pair(ids: list[int], left: int, right: int, new: int) -> list[int]:
    """Return the tokens with each pair (left, right) replaced by new, from left to right."""
    merged, i = [], 0
    while i < len(ids):
        if ids[i : i + 2] == [left, right]:
            merged.append(new)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def accepted_stack(ids, left, right, new):
    """Looks back instead of ahead, and remembers whether the last token may still be merged."""
    merged, free = [], False
    for token in ids:
        if free and token == right and merged[-1] == left:
            merged[-1], free = new, False
        else:
            merged.append(token)
            free = True
    return merged


def accepted_recursion(ids, left, right, new):
    """Finds the first pair and goes on with what follows it."""
    for i in range(len(ids) - 1):
        if ids[i] == left and ids[i + 1] == right:
            return [*ids[:i], new, *accepted_recursion(ids[i + 2 :], left, right, new)]
    return list(ids)


def accepted_text(ids, left, right, new):
    """Writes the tokens as characters and lets str.replace do it."""
    text = "".join(map(chr, ids)).replace(chr(left) + chr(right), chr(new))
    return [ord(character) for character in text]


def cases(generator):
    def case(ids, left, right, new):
        return {"ids": ids, "left": left, "right": right, "new": new}

    slide = [97, 97, 97, 98, 100, 97, 97, 97, 98, 97, 99]  # aaabdaaabac
    return [
        case(slide, 97, 97, 256),
        case([1, 2, 1, 3, 1, 2], 1, 2, 4),
        case([7, 7, 7], 7, 7, 8),
        case([17, 7], 7, 7, 8),
        case([12, 1, 2, 1, 2, 21, 12], 1, 2, 3),
        case([5, 6, 5, 6, 6, 5], 6, 5, 9),
        case([1, 1, 2, 2, 1, 2, 3], 1, 2, 8),
    ]


def property_nothing_to_merge(answer, generator):
    assert list(answer([], 1, 2, 3)) == [], "An empty list has nothing to merge; return an empty list."
    assert list(answer([4, 5, 1], 1, 2, 3)) == [4, 5, 1], (
        "In [4, 5, 1] the pair (1, 2) does not occur, so the list should stay as it is. Do you look beyond its end?"
    )


def hidden_cases(generator):
    import torch

    def drawn(n, most, left, right):
        ids = torch.randint(most, (n,), generator=generator).tolist()
        return {"ids": [*ids, left, right, left, left], "left": left, "right": right, "new": most}

    return [
        drawn(20, 3, 1, 2),
        drawn(15, 2, 1, 1),
        drawn(9, 4, 3, 0),
        drawn(40, 2, 0, 1),
        {"ids": [13, 31, 3, 1, 3, 1, 13, 131], "left": 3, "right": 1, "new": 256},
        {"ids": [5, 50, 55, 5, 5, 5, 5], "left": 5, "right": 5, "new": 6},
        {"ids": [1, 2, 2, 0, 1, 2, 2, 2], "left": 1, "right": 2, "new": 5},
    ]
