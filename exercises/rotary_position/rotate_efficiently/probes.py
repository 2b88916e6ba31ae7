def probe_in_two_steps(answer, x, angles):
    """Turning twice by half of the angles is turning once by the whole."""
    return answer(answer(x, angles / 2), angles / 2)
