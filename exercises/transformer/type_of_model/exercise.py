import torch

from llm_anatomy.shapes import Bool, Tensor


def type_of_model(depends: Bool[Tensor, "n_tokens n_tokens"], n_source: int) -> str:
    """Return "encoder", "decoder", "encoder-decoder" or "none of these"."""
    every = torch.ones_like(depends)
    prefix = every.tril()
    prefix[:n_source, :n_source] = True
    for name, table in {"encoder": every, "decoder": every.tril(), "encoder-decoder": prefix}.items():
        if torch.equal(depends, table):
            return name
    return "none of these"


def accepted_row_by_row(depends, n_source):
    """Asks for every pair whether it should be visible, and strikes out the types that say otherwise."""
    candidates = {
        "encoder": lambda i, j: True,
        "decoder": lambda i, j: j <= i,
        "encoder-decoder": lambda i, j: j <= i or j < n_source and i < n_source,
    }
    for i, row in enumerate(depends.tolist()):
        for j, seen in enumerate(row):
            candidates = {name: visible for name, visible in candidates.items() if visible(i, j) == seen}
    return next(iter(candidates), "none of these")


def accepted_last_visible(depends, n_source):
    """Looks at how far each row goes without a gap, and compares these lengths."""
    lengths = depends.sum(1)
    n = len(depends)
    if not torch.equal(depends, torch.arange(n) < lengths[:, None]):
        return "none of these"
    lengths = lengths.tolist()
    if lengths == [n] * n:
        return "encoder"
    if lengths == list(range(1, n + 1)):
        return "decoder"
    return "encoder-decoder" if lengths == [max(n_source, i) for i in range(1, n + 1)] else "none of these"


def tables(n, n_source):
    every = torch.ones(n, n, dtype=torch.bool)
    both = every.tril()
    both[:n_source, :n_source] = True
    separate = both.clone()
    separate[n_source:, :n_source] = False
    window = every.tril() & ~every.tril(-2)
    turned = every.triu()
    return [every, every.tril(), both, separate, window, turned]


def cases(generator):
    def of(n, n_source):
        return [{"depends": table, "n_source": n_source} for table in tables(n, n_source)]

    leak = tables(5, 3)[2]
    leak[0, 4] = True
    hole = tables(6, 4)[0]
    hole[5, 0] = False
    bare = tables(4, 2)[1]
    bare[2, 2] = False
    blind, over, seeing = (tables(6, 2)[2] for _ in range(3))
    blind[5, 3], over[4, 5], seeing[:2] = False, True, True
    wrong = [(leak, 3), (hole, 4), (bare, 2), (blind, 2), (over, 2), (seeing, 2)]
    wrong += [(tables(6, 3)[2], n) for n in (2, 4)]
    return [*of(5, 2), *of(4, 2), *({"depends": table, "n_source": n} for table, n in wrong)]


TYPES = ("encoder", "decoder", "encoder-decoder", "none of these")


def plain(name):
    """A name without differences in spelling that do not matter."""
    return str(name).strip().lower().replace("–", "-").replace("_", "-")


def observe(returned, depends, n_source):
    """the type that you name"""
    assert isinstance(returned, str), "the type should be a string"
    name = plain(returned)
    assert name in TYPES, f"{returned!r} is not one of the four strings"
    return name


def property_three_types(answer, generator):
    words = {
        "encoder": "every output depends on every token",
        "decoder": "each output depends on its own token and on all before it",
        "encoder-decoder": "the source sees the source, and the target sees the source and its own past",
    }
    for table, (name, meaning) in zip(tables(7, 4), words.items(), strict=False):
        found = answer(table, 4)
        assert plain(found) == name, f"In one of our tables {meaning}. That is {name!r}, but you say {found!r}."


def property_one_entry_changed(answer, generator):
    for i, j in ((0, 5), (1, 2), (5, 1), (5, 4), (4, 6), (6, 6), (2, 1)):
        table = tables(7, 4)[2]
        table[i, j] = ~table[i, j]
        found = answer(table, 4)
        assert plain(found) == "none of these", (
            f"In the table of an encoder-decoder with 4 source and 3 target tokens, we change the entry in row {i} and "
            f"column {j}, counted from 0. No type fits any more, but you say {found!r}."
        )


def hidden_cases(generator):
    found = []
    for n, n_source in ((7, 3), (9, 5), (6, 4), (8, 2)):
        for table in tables(n, n_source):
            found.append({"depends": table, "n_source": n_source})
            i, j = torch.randint(n, (2,), generator=generator).tolist()
            changed = table.clone()
            changed[i, j] = ~changed[i, j]
            found.append({"depends": changed, "n_source": n_source})
    leaks = tables(6, 3)[2]
    leaks[1, 4] = True
    return [*found, {"depends": leaks, "n_source": 3}]
