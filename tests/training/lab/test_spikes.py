"""Spikes are found, and steps of a clean run are not taken for spikes."""

import math

import pytest
import torch

from llm_anatomy.training.lab.spikes import SpikeDetector

N_STEPS = 600


def clean_run(seed=0, noise=0.05, beginning=6.0):
    """Losses that fall by a power law, and gradient norms with a long tail that fall in the beginning."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(N_STEPS):
        normal = torch.randn(2, generator=generator)
        loss = 1.5 + (beginning - 1.5) * (1 + step / 20) ** -0.7 + noise * normal[0].item()
        yield loss, (0.5 + 3 * math.exp(-step / 50)) * math.exp(0.3 * normal[1].item())


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_there_is_no_alarm_in_a_clean_run(noise):
    for seed in range(5):
        detector = SpikeDetector()
        assert [detector.check(*numbers) for numbers in clean_run(seed, noise)] == [None] * N_STEPS


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize("when", [60, 150, 599])
def test_a_spike_is_found_in_the_step_in_which_it_occurs(when):
    for spike, found in [((8.0, 1.0), "loss 8 is far above"), ((1.6, 40.0), "gradient norm 40 is far above")]:
        detector = SpikeDetector()
        for step, numbers in enumerate(clean_run()):
            reason = detector.check(*(spike if step == when else numbers))
            assert (reason is not None) == (step == when), (step, reason)
            assert reason is None or reason.startswith(found)


def test_a_spike_among_the_last_steps_hides_no_other():
    detector = SpikeDetector(window=20)
    for step in range(30):
        assert detector.check(2.0 + 0.01 * (step % 5), 1.0) is None
    assert all(detector.check(loss, 1.0) for loss in (2.5, 9.0, 1e6, 2.5, 2.5))


def test_a_loss_that_stays_high_is_no_spike_after_half_a_window():
    detector = SpikeDetector(window=20)
    for step in range(20):
        detector.check(2.0 + 0.01 * (step % 5), 1.0)
    reasons = [detector.check(3.0 + 0.01 * (step % 5), 1.0) for step in range(20)]
    assert all(reasons[:9]) and not any(reasons[11:])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_a_spike_from_the_first_step_and_is_not_remembered(value):
    detector = SpikeDetector(window=4)
    assert detector.check(value, 1.0) == f"loss {value} is not finite"
    assert detector.check(1.0, value) == f"gradient norm {value} is not finite"
    assert detector.state_dict()["last"].isnan().all()
    for _ in range(5):
        assert detector.check(1.0, 1.0) is None


def test_few_steps_are_no_standard_to_compare_with():
    detector = SpikeDetector(window=20)
    assert [detector.check(1.0, 1.0) for _ in range(9)] == [None] * 9
    assert detector.check(50.0, 50.0) is None  # the tenth step still has nine before it
    assert detector.check(50.0, 50.0) is not None


def test_noise_is_not_taken_from_the_fall_of_the_loss():
    detector = SpikeDetector()
    for step in range(100):
        assert detector.check(10 - 0.06 * step + 0.05 * (-1) ** step, 1.0) is None
    assert detector.check(9.0, 1.0) == "loss 9 is far above the median 7.03 of the last 100 steps"


def test_a_loss_without_noise_may_rise_by_a_few_percent():
    detector = SpikeDetector()
    for _ in range(100):
        assert detector.check(2.0, 1.0) is None
    assert detector.check(2.1, 1.0) is None and detector.check(2.2, 1.0) is not None


@pytest.mark.parametrize("n_first", [30, 300])
def test_a_detector_goes_on_from_its_state(n_first):
    whole, first, second = SpikeDetector(), SpikeDetector(), SpikeDetector()
    numbers = [(8.0, 1.0) if step in (70, 420) else numbers for step, numbers in enumerate(clean_run())]
    reasons = [whole.check(*pair) for pair in numbers]
    begun = [first.check(*pair) for pair in numbers[:n_first]]
    for _ in range(40):
        second.check(100.0, 100.0)  # is forgotten
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second.state_dict(), first.state_dict(), equal_nan=True)
    assert begun + [second.check(*pair) for pair in numbers[n_first:]] == reasons
    assert sum(map(bool, reasons)) == 2


def test_a_state_has_the_same_shape_at_each_step_and_fits_a_shorter_window():
    detector = SpikeDetector(window=6)
    assert detector.state_dict()["last"].shape == (6, 2)
    for step in range(9):
        detector.check(2.0, 1.0 + step)
    state = detector.state_dict()
    assert state["last"].shape == (6, 2) and state["last"][:, 1].tolist() == [4, 5, 6, 7, 8, 9]
    shorter = SpikeDetector(window=4)
    shorter.load_state_dict(state)
    assert shorter.state_dict()["last"][:, 1].tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(window=3), "window=3 must be at least 4"),
        (dict(loss_threshold=0.0), "loss_threshold=0.0 must be above 0"),
        (dict(gradient_factor=1.0), "gradient_factor=1.0 must be above 1"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SpikeDetector(**arguments)
