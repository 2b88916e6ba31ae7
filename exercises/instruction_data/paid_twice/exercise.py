import json

import torch


def broken(requests: list[dict], journal: list[dict]) -> list[int]:
    """Return the indices of the requests that have to be sent."""
    paid = [json.dumps(request, sort_keys=True) for request in journal]
    return [i for i, request in enumerate(requests) if json.dumps(request, sort_keys=True) not in paid]


def paid_twice(requests: list[dict], journal: list[dict]) -> list[int]:
    """Return the indices of the requests that have to be sent."""
    names = ("prompt", "max_tokens", "seed")
    paid = {tuple(request[name] for name in names) for request in journal}
    to_send = []
    for i, request in enumerate(requests):
        key = tuple(request[name] for name in names)
        if key not in paid:
            to_send.append(i)
            paid.add(key)
    return to_send


def accepted_without_the_others(requests, journal):
    """Takes the two other entries away, and compares lists of dictionaries."""

    def asked(request):
        return {name: entry for name, entry in request.items() if name not in ("attempt", "timeout")}

    found, answered = (), [asked(request) for request in journal]
    for i in range(len(requests)):
        if asked(requests[i]) not in answered + [asked(each) for each in requests[:i]]:
            found += (i,)
    return found


def accepted_first_of_each(requests, journal):
    """Keeps the first index of each key, and returns a tensor."""
    first = {}
    for i, request in enumerate(requests):
        first.setdefault(json.dumps([request["seed"], request["prompt"], request["max_tokens"]]), i)
    for request in journal:
        first.pop(json.dumps([request["seed"], request["prompt"], request["max_tokens"]]), None)
    return torch.tensor(sorted(first.values()), dtype=torch.int64)


def observe(returned, requests, journal):
    """the indices of the requests that are sent"""
    if hasattr(returned, "tolist"):
        returned = returned.tolist()
    assert isinstance(returned, tuple | list), "return a list of indices"
    numbers = [float(number) for number in returned]
    assert all(number.is_integer() for number in numbers), "the indices should be whole numbers"
    return list(map(int, numbers))


NAMES = ("prompt", "max_tokens", "seed", "attempt", "timeout")


def _case(requests, journal):
    requests, journal = ([dict(zip(NAMES, row, strict=True)) for row in rows] for rows in (requests, journal))
    return {"requests": requests, "journal": journal}


def cases(generator):
    journal = [("Task 9:", 60, 1, 2, 30), ("Is it spam?", 3, 1, 1, 30), ("Task 9:", 60, 2, 1, 30)]
    return [
        _case([("Task 9:", 60, s, 1, 30) for s in (1, 2, 3)] + [("Is it spam?", 3, 4, 1, 30)], journal),
        _case([("a", 3, 1, 1, 5)], [("a", 3, 1, 2, 5)]),
        _case([("a", 3, 1, 1, 9)], [("a", 3, 1, 1, 5)]),
        _case([("a", 3, 1, 1, 5), ("a", 3, 1, 1, 5)], []),
        _case([("a", 3, 2, 1, 5)], [("a", 3, 1, 1, 5)]),
        _case([("a", 4, 1, 1, 5)], [("a", 3, 1, 1, 5)]),
        _case([("b", 3, 1, 1, 5)], [("a", 3, 1, 1, 5)]),
        _case([("a", 3, 2, 1, 5)], [("a", 4, 2, 1, 5), ("a", 3, 1, 1, 5), ("b", 3, 2, 1, 5)]),
        _case([("4", 12, 1, 1, 5), ("41", 2, 1, 1, 5)], []),
        _case([("a", 3, 2, 1, 5), ("a", 2, 3, 1, 5)], []),
        _case([("Is it an ant?", 3, 1, 1, 5)], [("Is it an axe?", 3, 1, 1, 5)]),
        _case([("A", 3, 1, 1, 5), ("a", 3, 1, 1, 5), ("A", 3, 1, 2, 7), ("b", 3, 1, 1, 5)], [("b", 3, 1, 3, 9)]),
    ]


def property_nothing_is_sent_again(answer, generator):
    requests = _case([("a", 3, s, 1, 5) for s in range(4)], [])["requests"]
    found = answer(requests, [request | {"attempt": 3, "timeout": 60} for request in requests])
    assert len(found) == 0, "If all requests have been answered, none should be sent. Yours are sent again."


def hidden_cases(generator):
    def drawn(n):
        columns = [torch.randint(high, (n,), generator=generator).tolist() for high in (3, 2, 3, 3, 2)]
        rows = zip(*columns, strict=True)
        return [(("Ab", "ab", "cB")[p], 3 + 57 * m, s, 1 + a, 30 + 30 * t) for p, m, s, a, t in rows]

    drawn_ones = [_case(drawn(n), drawn(k)) for n, k in ((12, 5), (20, 4), (9, 9), (16, 0))]
    drawn_ones.append(_case([("Name a bird of prey.", 9, 4, 1, 30), ("Name a bird of the sea.", 4, 9, 1, 30)] * 2, []))
    return drawn_ones + [_case([("7", 31, 2, 1, 30), ("73", 1, 2, 1, 30), ("7", 31, 2, 2, 60)], [])]
