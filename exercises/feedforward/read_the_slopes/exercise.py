def read_the_slopes() -> list[str]:
    """Return the names of the activations of the curves A to E."""
    return ["swish", "squared_relu", "elu", "gelu", "softplus"]


def accepted_letters():
    """Gives each letter its name."""
    names = {"B": "squared_relu", "C": "elu", "E": "softplus", "A": "swish", "D": "gelu"}
    return tuple(names[letter] for letter in "ABCDE")


def accepted_other_spelling():
    """Writes the names as people do."""
    return ["Swish", "squared ReLU", "ELU", "GELU", "Softplus"]


def cases(generator):
    return [{}]


def observe(returned):
    """whether each curve has its name"""
    known = ("elu", "gelu", "softplus", "squared_relu", "swish")
    returned = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(returned, tuple | list) and len(returned) == 5, "a list of five names is needed"
    assert all(isinstance(name, str) for name in returned), "the names should be strings"
    names = [name.strip().lower().replace(" ", "_").replace("-", "_") for name in returned]
    strange = [name for name, read in zip(returned, names, strict=True) if read not in known]
    assert not strange, f"{strange[0]!r} is not one of the five names"
    assert len(set(names)) == 5, "each of the five names belongs to one curve"
    right = ("swish", "squared_relu", "elu", "gelu", "softplus")
    read = zip("ABCDE", names, right, strict=True)
    return {f"name for curve {curve}": "right" if name == wanted else name for curve, name, wanted in read}


def hidden_cases(generator):
    return [{}]
