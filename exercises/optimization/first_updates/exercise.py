import torch


def first_updates() -> list[float]:
    """Return the two moments, the first update with and without correction, that of step 1,000, and with equal β."""
    m_1, v_1 = 0.1 * 3, 0.001 * 3**2
    late = (1 - 0.9**1000) / (1 - 0.999**1000) ** 0.5
    return [m_1, v_1, 1.0, m_1 / v_1**0.5, late, 0.1 / 0.1**0.5]


def accepted_rounded():
    """The numbers, as they stand on paper."""
    return 0.3, 0.009, 1, 3.16, 1.26, 0.32


def accepted_simulated():
    """Lets Adam run."""

    def moments(beta1, beta2, n_steps):
        m = v = torch.tensor(0.0, dtype=torch.float64)
        for _ in range(n_steps):
            m, v = torch.lerp(m, m.new_tensor(3.0), 1 - beta1), torch.lerp(v, v.new_tensor(9.0), 1 - beta2)
        return m, v

    (m, v), (late_m, late_v), (equal_m, equal_v) = (
        moments(*each) for each in ((0.9, 0.999, 1), (0.9, 0.999, 1000), (0.9, 0.9, 1))
    )
    corrected = (m / 0.1) / (v / 0.001).sqrt()
    return torch.stack((m, v, corrected, m / v.sqrt(), late_m / late_v.sqrt(), equal_m / equal_v.sqrt()))


def cases(generator):
    return [{}]


def observe(returned):
    """the second number to three decimals and the others to two"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    digits = (2, 3, 2, 2, 2, 2)
    return tuple(round(float(number), n) + 0.0 for number, n in zip(numbers, digits, strict=True))


def hidden_cases(generator):
    return [{}]
