"""Signals that ask a run to stop: it finishes its step, saves, and leaves with a status that asks for another start."""

import signal
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

EXIT_STATUS = 75
"""The exit status of a run that was stopped by a signal and can go on: ``EX_TEMPFAIL`` of ``sysexits.h``."""


class StopSignals:
    """Remember SIGTERM and SIGINT until the loop asks for them, and do not end the process.

    Schedulers send SIGTERM before they kill a job, and Ctrl-C is SIGINT. At the end of each step the loop calls
    ``stop``, which tells all ranks of a distributed run the same, also if only one has received a signal. A second
    SIGINT ends the process as usual, for someone who does not want to wait. When the context ends, the signals have the
    effect that they had before.

    Args:
        device: where the ranks agree: that of the model, since NCCL cannot send tensors of a CPU.

    Raises:
        ValueError: if the context is entered in another thread than the main one, where Python allows no handlers.

    Source: POSIX.1-2017, ``signal.h``, and ``sysexits.h`` of 4.3BSD; GT-03, whose run was restarted dozens of times.

    >>> import os
    >>> with StopSignals() as signals:
    ...     before = signals.stop()
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     before, signals.stop(), signals.name
    (False, True, 'SIGTERM')
    """

    def __init__(self, device: torch.device | str = "cpu"):
        self.device = device
        self.name: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        self._before = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.name == "SIGINT" and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.name = signal.Signals(number).name

    def stop(self) -> bool:
        """Return whether any rank has received a signal. All ranks must call it, at the same step."""
        if not (dist.is_available() and dist.is_initialized()):
            return self.name is not None
        received = torch.tensor(int(self.name is not None), device=self.device)
        dist.all_reduce(received, dist.ReduceOp.MAX)
        return bool(received.item())
