"""User ids that belong to no account: each live worker has one to itself, across all graders of the machine."""

import fcntl
import os
import pwd
import random
from pathlib import Path

from groundwork import Refusal

RANGE = range(61000, 61184)  # neither people nor packages have these, and systemd gives out later ones
FOLDER = Path("/run/llm_grader")


class Uid:
    """A reserved user id. The kernel frees it when this process ends, however that happens."""

    def __init__(self) -> None:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        # a random order: two graders that start together do not try the same ones in turn
        accounts = {account.pw_uid for account in pwd.getpwall()}
        for number in random.sample(RANGE, len(RANGE)):
            if number in accounts:
                continue
            lock = os.open(FOLDER / str(number), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self.number, self._lock = number, lock
            return
        raise Refusal(f"all {len(RANGE)} user ids from {RANGE[0]} for workers are taken.")

    def free(self) -> None:
        os.close(self._lock)
