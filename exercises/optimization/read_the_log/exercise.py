def read_the_log() -> dict:
    """Return the letters of the four incidents, and the step of the checkpoint."""
    return {"overflow": "B", "bad batch": "C", "lost moments": "A", "high rate": "D", "checkpoint": 250}


def accepted_written_freely():
    """Small letters and spaces do not matter, and the step may be a string."""
    return {"checkpoint": "250", "high rate": " d", "lost moments": "a", "bad batch": "c ", "overflow": "b"}


def accepted_in_the_order_of_the_log():
    """Goes through the letters."""
    return dict(zip(("lost moments", "overflow", "bad batch", "high rate"), "ABCD", strict=True)) | {
        "checkpoint": 250.0
    }


def cases(generator):
    return [{}]


def observe(returned):
    """whether the four letters and the step of the checkpoint are right"""
    names = ("overflow", "bad batch", "lost moments", "high rate")
    assert isinstance(returned, dict), "return a dictionary"
    missing = [name for name in (*names, "checkpoint") if name not in returned]
    assert not missing, f"the entry {missing[0]!r} is missing" if missing else ""
    letters = {name: str(returned[name]).strip().upper() for name in names}
    for name, letter in letters.items():
        assert letter in ("A", "B", "C", "D"), f"{returned[name]!r} is not one of the letters A to D"
    assert len(set(letters.values())) == 4, "each of the four lines belongs to another incident"
    step = returned["checkpoint"]
    try:
        step = float(str(step.item() if hasattr(step, "item") else step).replace(",", ""))
    except ValueError:
        raise AssertionError("the checkpoint should be the number of a step, without words") from None
    assert step % 50 == 0, "checkpoints are saved in the steps 100, 150, and so on"
    assert 100 <= step <= 350, "the figure shows the checkpoints of the steps 100, 150, and so on up to 350"
    lines = dict(zip(names, "BCAD", strict=True))
    said = {f'letter for "{name}"': "right" if letters[name] == lines[name] else letters[name] for name in names}
    return said | {"checkpoint": "right" if step == 250 else f"too {'early' if step < 250 else 'late'}: {step:g}"}


def hidden_cases(generator):
    return [{}]
