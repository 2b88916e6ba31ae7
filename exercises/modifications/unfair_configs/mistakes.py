RIGHT = {
    "A": ("d_ff", 1024),
    "B": ("n_heads", 4),
    "C": ("d_ff", 1920),
    "D": ("feedforward", "swish"),
    "E": ("d_embed", 128),
}


def values_as_they_stand():
    """You return the values that stand in the configs. Return the right ones."""
    wrong = {"A": 1536, "B": 8, "C": 1728, "D": "swiglu", "E": 256}
    return {letter: (field, wrong[letter]) for letter, (field, _) in RIGHT.items()}


def half_the_width():
    """In A, your layers have fewer parameters than planned. One with a gate has three matrices, in place of two."""
    return RIGHT | {"A": ("d_ff", 768)}


def gate_taken_away():
    """In A, you take the gate away. It is what the variant is about."""
    return RIGHT | {"A": ("feedforward", "gelu")}


def wider_for_the_gate():
    """In A, you make the layer wider. A gate adds a matrix, so that it has to become narrower."""
    return RIGHT | {"A": ("d_ff", 2304)}


def smaller_feed_forward():
    """In B, the number of all parameters together would be right. But the feed-forward layers should keep theirs, and
    so should attention."""
    return RIGHT | {"B": ("d_ff", 256)}


def as_deep_as_before():
    """In B, you change the number of layers. That is what the variant is about."""
    return RIGHT | {"B": ("n_layers", 12)}


def more_heads():
    """In B, your heads are too many. There are twice as many layers, each of which has four matrices of attention."""
    return RIGHT | {"B": ("n_heads", 16)}


def root_of_the_heads():
    """In B, your heads are too few: the number of parameters grows in proportion to the heads, and not to their
    square."""
    return RIGHT | {"B": ("n_heads", 2)}


def one_of_two_matrices():
    """In C, you give back half of what is saved. Keys and values lose six heads each, or two matrices gain from it."""
    return RIGHT | {"C": ("d_ff", 1536 + 192)}


def saved_twice():
    """In C, you give back twice what is saved. The layer without a gate has two matrices."""
    return RIGHT | {"C": ("d_ff", 1536 + 768)}


def all_heads_saved():
    """In C, you give back all matrices of keys and values. Two heads are left in each."""
    return RIGHT | {"C": ("d_ff", 2048)}


def remaining_heads_saved():
    """In C, you give back what is left of the keys and values, in place of what is saved."""
    return RIGHT | {"C": ("d_ff", 1664)}


def own_keys_for_all():
    """In C, you change the number of key-value heads. That is what the variant is about."""
    return RIGHT | {"C": ("n_kv_heads", 8)}


def another_gate():
    """In D, your layer still has a gate."""
    return RIGHT | {"D": ("feedforward", "geglu")}


def no_change():
    """In D, you return to the baseline. Which activation was planned?"""
    return RIGHT | {"D": ("feedforward", "relu")}


def projection_forgotten():
    """In E, the matrix that projects the vectors to `d_model` is missing from your count."""
    return RIGHT | {"E": ("d_embed", 130)}


def saved_for_left():
    """In E, you take what is saved for what is left."""
    return RIGHT | {"E": ("d_embed", 376)}


def not_factorized():
    """In E, you return to the table of the baseline."""
    return RIGHT | {"E": ("d_embed", 512)}


def twice_the_feed_forward():
    """In B, your feed-forward layers are as wide as those of the baseline. But there are twice as many of them."""
    return RIGHT | {"B": ("d_ff", 1536)}


def other_activation():
    """In D, your activation has no gate, but it is another one than planned."""
    return RIGHT | {"D": ("feedforward", "gelu")}


def eight_thirds():
    """In A, you take 8/3 of the width, which goes with a layer of four times the width. That of the baseline is
    narrower."""
    return RIGHT | {"A": ("d_ff", 1365)}
