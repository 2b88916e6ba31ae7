"""User ids without an account, of which each running worker on this machine gets one of its own."""

import fcntl
import os
import pwd
import random
from pathlib import Path

from groundwork import Refusal
from llm_grader.sandbox.processes import threads_of_users

UID_RANGE = range(61000, 61184)  # neither people nor packages use these, and systemd assigns higher ones
LOCK_FOLDER = Path("/run/llm_grader")


class Uid:
    """A reserved user id. The kernel releases it when this process ends, for whatever reason."""

    def __init__(self) -> None:
        LOCK_FOLDER.mkdir(mode=0o700, exist_ok=True)
        # in random order, so that two graders that start together do not try the same ids; last those under which
        # processes have ended that nobody has waited for, since the kernel counts them among a new worker's
        accounts, threads = {account.pw_uid for account in pwd.getpwall()}, threads_of_users()
        for number in sorted(random.sample(UID_RANGE, len(UID_RANGE)), key=threads.__getitem__):
            if number in accounts:
                continue
            lock = os.open(LOCK_FOLDER / str(number), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self.number, self._lock = number, lock
            return
        raise Refusal(f"All {len(UID_RANGE)} user ids for workers (from {UID_RANGE[0]} on) are in use.")

    def release(self) -> None:
        """Make the user id available to other workers."""
        os.close(self._lock)
