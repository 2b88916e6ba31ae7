def _sent(requests, journal, names=("prompt", "max_tokens", "seed"), among_themselves=True, against_journal=True):
    def key(request):
        return tuple(request[name] for name in names)

    paid = [key(request) for request in journal] if against_journal else []
    found = []
    for i, request in enumerate(requests):
        if key(request) not in paid:
            found.append(i)
            if among_themselves:
                paid.append(key(request))
    return found


def repetitions_sent(requests, journal):
    """You still send the same request twice if it stands twice in the list."""
    return _sent(requests, journal, among_themselves=False)


def attempt_in_the_key(requests, journal):
    """You still distinguish requests by their attempt."""
    return _sent(requests, journal, ("prompt", "max_tokens", "seed", "attempt"))


def timeout_in_the_key(requests, journal):
    """You still distinguish requests by their timeout."""
    return _sent(requests, journal, ("prompt", "max_tokens", "seed", "timeout"))


def all_in_the_key(requests, journal):
    """You send a repeated request once, but you still distinguish requests by their attempt and their timeout."""
    return _sent(requests, journal, ("prompt", "max_tokens", "seed", "attempt", "timeout"))


def prompt_alone(requests, journal):
    """You compare prompts alone. With another seed or another limit, a completion is another one."""
    return _sent(requests, journal, ("prompt",))


def without_the_seed(requests, journal):
    """You do not compare the seed. Two seeds should bring two completions."""
    return _sent(requests, journal, ("prompt", "max_tokens"))


def without_the_limit(requests, journal):
    """You do not compare `"max_tokens"`. A completion with another limit may be another one."""
    return _sent(requests, journal, ("prompt", "seed"))


def without_the_prompt(requests, journal):
    """You do not compare the prompts."""
    return _sent(requests, journal, ("max_tokens", "seed"))


def journal_not_read(requests, journal):
    """You send requests again that are in the journal."""
    return _sent(requests, journal, against_journal=False)


def repetitions_never_sent(requests, journal):
    """A request that stands twice in your list is not sent at all. Send the first one."""

    def key(request):
        return request["prompt"], request["max_tokens"], request["seed"]

    keys = [key(request) for request in requests]
    found = _sent(requests, journal)
    return [i for i in found if keys.count(keys[i]) == 1]


def last_of_them(requests, journal):
    """Of requests that ask for the same, you send the last one. Send the first one."""
    n = len(requests)
    return sorted(n - 1 - i for i in _sent(requests[::-1], journal))


def paid_ones(requests, journal):
    """You return the requests that need not be sent."""
    found = _sent(requests, journal)
    return [i for i in range(len(requests)) if i not in found]


def capitals_ignored(requests, journal):
    """You do not distinguish capital and small letters in prompts. To a model, they are not the same."""
    requests, journal = ([each | {"prompt": each["prompt"].lower()} for each in rows] for rows in (requests, journal))
    return _sent(requests, journal)


def written_into_the_journal(requests, journal):
    """Your answer is right, but you also change the journal that you are given."""
    found = _sent(requests, journal)
    journal += [requests[i] for i in found] or [{}]
    return found


def each_entry_alone(requests, journal):
    """You compare each entry with those of all requests before. One and the same request has to have all three."""
    names, found = ("prompt", "max_tokens", "seed"), []
    for i, request in enumerate(requests):
        before = [*journal, *requests[:i]]
        if not all(any(request[name] == each[name] for each in before) for name in names):
            found.append(i)
    return found


def without_a_border(requests, journal):
    """You join the entries without anything between them, so that two different requests can have the same key."""

    def joined(rows):
        return [each | {"prompt": f"{each['prompt']}{each['max_tokens']}{each['seed']}"} for each in rows]

    return _sent(joined(requests), joined(journal), ("prompt",))
