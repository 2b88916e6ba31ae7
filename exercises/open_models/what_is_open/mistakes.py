RIGHT = {
    "compare": "PQRS",
    "look inside": "QRS",
    "memory": "S",
    "restarts": "R",
    "emergence": "S",
    "retrain": "S",
    "product": "S",
}


def api_left_out():
    """Only `"compare"` is wrong: an API is enough to read what a model writes."""
    return RIGHT | {"compare": "QRS"}


def hidden_states_through_an_api():
    """Only `"look inside"` is wrong: an API shows what the model writes, and not what happens inside."""
    return RIGHT | {"look inside": "PQRS"}


def code_needed_to_look_inside():
    """Only `"look inside"` is wrong: the code of the training is not needed for it."""
    return RIGHT | {"look inside": "RS"}


def description_for_texts():
    """Only `"memory"` is wrong: a description does not tell which sentences stood in the texts."""
    return RIGHT | {"memory": "QRS"}


def api_for_texts():
    """Only `"memory"` is wrong: what a model writes when it is asked does not prove what it has read."""
    return RIGHT | {"memory": "PS"}


def checkpoints_for_a_log():
    """Only `"restarts"` is wrong: checkpoints and code show what was trained. Who writes down what went wrong?"""
    return RIGHT | {"restarts": "RS"}


def code_for_a_log():
    """Only `"restarts"` is wrong: the model that you name has no log."""
    return RIGHT | {"restarts": "S"}


def last_weights_for_emergence():
    """Only `"emergence"` is wrong: the weights at the end do not show what they were before."""
    return RIGHT | {"emergence": "QRS"}


def log_for_emergence():
    """Only `"emergence"` is wrong: a log contains what the team has noticed. You want to measure something else."""
    return RIGHT | {"emergence": "RS"}


def code_alone():
    """Only `"retrain"` is wrong: the code reads texts that you may not have."""
    return RIGHT | {"retrain": "RS"}


def weights_for_retraining():
    """Only `"retrain"` is wrong: to repeat the training, you need what it was made of."""
    return RIGHT | {"retrain": "QRS"}


def licence_not_read():
    """Only `"product"` is wrong: what does the last row say?"""
    return RIGHT | {"product": "QRS"}


def product_on_their_machines():
    """Only `"product"` is wrong: with an API, the model runs on the machines of those who offer it."""
    return RIGHT | {"product": "PS"}


def most_open_for_everything():
    """You name S only. Some of these things can be done with others as well, and one of them needs what S does not
    have."""
    return dict.fromkeys(RIGHT, "S")
