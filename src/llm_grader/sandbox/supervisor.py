"""The process that supervises a worker under sandlock: ``supervisor.py POLICY IN_FD OUT_FD COMMAND …``."""

import ctypes
import json
import os
import sys

import sandlock

SUBREAPER, DEATH_SIGNAL = 36, 1
# sandlock hands on the standard streams alone: the two pipes travel as these, and move to their numbers inside
MOVE = """
import os, sys
source, to, *command = sys.argv[1:]
os.dup2(0, int(source))
os.dup2(1, int(to))
os.dup2(os.open(os.devnull, os.O_RDWR), 0)
os.dup2(0, 1)
os.execv(command[0], command)
"""


def main(policy: str, source: str, to: str, *command: str) -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)  # what a worker leaves behind stays this process's, and can be found
    libc.prctl(DEATH_SIGNAL, 9, 0, 0, 0)
    os.dup2(int(source), 0)
    os.dup2(int(to), 1)
    os.close(int(source))
    os.close(int(to))
    box = sandlock.Sandbox(**json.loads(policy))
    return box.run_interactive([sys.executable, "-I", "-S", "-B", "-c", MOVE, source, to, *command])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
