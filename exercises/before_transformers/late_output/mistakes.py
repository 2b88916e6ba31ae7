def _parts(gates):
    return gates.chunk(4, -1)


def _new(gates, c):
    i, f, g, _ = _parts(gates)
    return f.sigmoid() * c + i.sigmoid() * g.tanh()


def state_returned_first(gates, c):
    """You return the state first now. The output comes first, as before."""
    c = _new(gates, c)
    return c, _parts(gates)[3].sigmoid() * c.tanh()


def no_tanh_of_the_state(gates, c):
    """The output reads the new state now, but the tanh around it is gone."""
    c = _new(gates, c)
    return _parts(gates)[3].sigmoid() * c, c


def gates_in_another_order(gates, c):
    """You changed the order of the gates to i, f, o, g. It was right: input, forget, candidate, output."""
    i, f, o, g = _parts(gates)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gates_exchanged_only(gates, c):
    """You changed the order of the gates, which was right, and the output still reads the old state."""
    i, f, o, g = _parts(gates)
    h = o.sigmoid() * c.tanh()
    return h, f.sigmoid() * c + i.sigmoid() * g.tanh()


def candidate_for_state(gates, c):
    """Your output reads what this token writes. It should read the whole new state, with what was kept."""
    i, _, g, o = _parts(gates)
    return o.sigmoid() * (i.sigmoid() * g.tanh()).tanh(), _new(gates, c)


def candidate_itself(gates, c):
    """Your output reads the candidate. It should read the new state."""
    _, _, g, o = _parts(gates)
    return o.sigmoid() * g.tanh(), _new(gates, c)


def old_and_new_added(gates, c):
    """Your output reads the sum of the old state and the new one. It should read the new one alone."""
    new = _new(gates, c)
    return _parts(gates)[3].sigmoid() * (c + new).tanh(), new


def updated_twice(gates, c):
    """You update the state twice: the line is there before the output and after it. Move it, and do not copy it."""
    c = _new(gates, c)
    return _parts(gates)[3].sigmoid() * c.tanh(), _new(gates, c)


def nothing_forgotten(gates, c):
    """You removed the forget gate. The state was right: only the output was not."""
    i, _, g, o = _parts(gates)
    c = c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def old_state_returned(gates, c):
    """Your output is right now, but you return the old state. The next step needs the new one."""
    return _parts(gates)[3].sigmoid() * _new(gates, c).tanh(), c


def output_gate_missing(gates, c):
    """The output reads the new state now, but the output gate is gone."""
    c = _new(gates, c)
    return c.tanh(), c


def gru_like(gates, c):
    """You let one gate decide both what is kept and what is written. An LSTM has two gates for this; the state was
    right."""
    _, f, g, o = _parts(gates)
    c = f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh()
    return o.sigmoid() * c.tanh(), c
