"""The process that supervises a worker under sandlock: ``supervisor.py POLICY IN_FD OUT_FD COMMAND …``."""

import ctypes
import json
import os
import sys

import sandlock

SUBREAPER, DEATH_SIGNAL = 36, 1
ANY_SIGNAL, KILLED = -1, 137  # sandlock does not tell which signal it was; the kernel may have had no memory left
# sandlock passes only the standard streams on, so the two pipes travel as these and are moved back inside
REDIRECT = """
import os, sys
request_fd, reply_fd, *command = sys.argv[1:]
os.dup2(0, int(request_fd))
os.dup2(1, int(reply_fd))
os.dup2(os.open(os.devnull, os.O_RDWR), 0)
os.dup2(0, 1)
os.execv(command[0], command)
"""


def main(policy: str, request_fd: str, reply_fd: str, *command: str) -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)  # orphans of the worker become children of this process, where they can be found
    libc.prctl(DEATH_SIGNAL, 9, 0, 0, 0)
    os.dup2(int(request_fd), 0)
    os.dup2(int(reply_fd), 1)
    os.close(int(request_fd))
    os.close(int(reply_fd))
    sandbox = sandlock.Sandbox(**json.loads(policy))
    words = [sys.executable, "-I", "-S", "-B", "-c", REDIRECT, request_fd, reply_fd, *command]
    status = sandbox.run_interactive(words)
    return KILLED if status == ANY_SIGNAL else status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
