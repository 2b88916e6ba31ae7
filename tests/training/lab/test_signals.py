"""Signals wait for the end of a step, and all ranks agree on them."""

import os
import signal
import threading

import pytest
import torch.distributed as dist

from llm_anatomy.training.lab.signals import EXIT_STATUS, StopSignals


def send(name):
    os.kill(os.getpid(), getattr(signal, name))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_is_remembered_until_the_end_of_the_step(name):
    with StopSignals() as signals:
        assert not signals.stop() and signals.name is None
        send(name)
        assert signals.stop() and signals.stop() and signals.name == name


@pytest.fixture
def interrupts():
    """Ctrl-C interrupts, also where the tests were started in the background and would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_signals_have_their_effect_again_afterwards(interrupts):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(RuntimeError), StopSignals():
        assert signal.getsignal(signal.SIGTERM) not in before
        raise RuntimeError
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    with pytest.raises(KeyboardInterrupt):
        send("SIGINT")


def test_a_second_interrupt_does_not_wait_and_a_second_sigterm_does():
    with StopSignals() as signals:
        send("SIGTERM")
        send("SIGTERM")
        send("SIGINT")
        with pytest.raises(KeyboardInterrupt):
            send("SIGINT")
    assert signals.name == "SIGINT"


def test_another_thread_is_refused():
    errors = []

    def enter():
        try:
            StopSignals().__enter__()
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert len(errors) == 1


def stop_at_a_signal():
    """Ten steps, in the fourth of which the second rank gets a signal."""
    with StopSignals() as signals:
        for step in range(10):
            if step == 3 and dist.get_rank() == 1:
                send("SIGTERM")
            if signals.stop():
                break
    return step, signals.name


def test_all_ranks_stop_at_the_step_at_which_one_has_received_a_signal(forks):
    assert forks(stop_at_a_signal, n_ranks=2) == [[3, None], [3, "SIGTERM"]]
    assert EXIT_STATUS == 75
