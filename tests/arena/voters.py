"""Many voters at once, and a server that stops while they vote; then every vote must be there exactly once.

It is killed, and every other time asked to stop, as by Ctrl+C.

    PYTHONPATH=src python tests/arena/voters.py --voters 50 --votes 10000 --kills 5

``--database`` takes what the arena takes, such as a PostgreSQL URL; by default an SQLite file in a temporary folder.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

from llm_anatomy.arena.battles import WINNERS
from llm_anatomy.arena.votes import Votes

AWAY = (OSError, http.client.HTTPException)  # the server is not there, or went while it answered


def write_outputs(path, n_models=6, n_prompts=40):
    lines = (
        {"prompt": f"Prompt {i}", "model": f"model {m}", "output": f"Output of prompt {i}, number {m}."}
        for i in range(n_prompts)
        for m in range(n_models)
    )
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The command, as a process of its own, which is killed at the end of ``with``."""

    def __init__(self, folder, database=None):
        self.port = free_port()
        words = ["arena", "serve", "--outputs", write_outputs(Path(folder, "outputs.jsonl")), "--port", self.port]
        words += ["--database", database or Path(folder, "arena.sqlite")]
        self.command = [sys.executable, "-m", "llm_anatomy", *map(str, words)]
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        lines = []
        while not (line := self.process.stdout.readline()).startswith("Vote at"):
            lines.append(line)
            assert line, f"the server did not start: {lines}"

    def stop(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.stdout.close()
        return self.process.wait()


class Voter(threading.Thread):
    """Reads a page, votes, and now and then sends the vote again, as it was or changed. It tries until it is answered.

    ``said`` has what it voted first on each battle, once that was acknowledged.
    """

    def __init__(self, port, n_votes, seed):
        super().__init__(daemon=True)
        self.port, self.n_votes, self.random = port, n_votes, random.Random(seed)
        self.cookie, self.said, self.seconds, self.problems = "", {}, [], []
        self.connection, self.ended = None, False

    def run(self):
        while len(self.said) < self.n_votes and not self.problems:
            number, token = self._battle()
            winner = self.said.get(number) or self.random.choice(list(WINNERS))
            if number in self.said:
                self.problems.append(f"battle {number} was shown again after its vote was acknowledged")
            begin = time.perf_counter()
            self._vote(number, token, winner)
            self.seconds.append(time.perf_counter() - begin)
            self.said[number] = winner
            if self.random.random() < 0.2:
                self._vote(number, token, self.random.choice(list(WINNERS)))

    def _battle(self):
        status, _, page = self._ask("GET", "/")
        found = re.search(r'name="battle" value="(\d+)".*?name="token" value="(\w+)"', page, re.DOTALL)
        assert status == 200 and found, f"{status}: {page}"
        return int(found[1]), found[2]

    def _vote(self, number, token, winner):
        form = urlencode({"battle": number, "token": token, "winner": winner})
        status, address, page = self._ask("POST", "/vote", form)
        if status != 303 or not address.startswith(f"/battles/{number}"):
            self.problems.append(f"a vote was answered with {status}: {page}")

    def _ask(self, method, path, form=None):
        while not self.ended:
            try:
                self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                headers = {"Cookie": self.cookie} | (
                    {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
                )
                self.connection.request(method, path, form, headers)
                answer = self.connection.getresponse()
                page = answer.read().decode()
                if answer.status != 503:
                    self.cookie = (answer.headers["Set-Cookie"] or "").partition(";")[0] or self.cookie
                    return answer.status, answer.headers["Location"] or "", page
            except AWAY:
                self.connection.close()
                self.connection = None
            time.sleep(0.05)
        raise SystemExit  # of this thread alone

    @property
    def name_in_database(self):
        return self.cookie.partition("=")[2].partition(".")[0]


def _vote(server, n_voters, n_votes, n_kills):
    """Let them vote; return them, the number of kills that were not reached, and the seconds in all."""
    voters = [Voter(server.port, n_votes // n_voters, seed) for seed in range(n_voters)]
    begin = time.perf_counter()
    for voter in voters:
        voter.start()
    kills = [n_votes * (i + 1) // (n_kills + 1) for i in range(n_kills)]
    try:
        while any(voter.is_alive() for voter in voters):
            time.sleep(0.02)
            if kills and sum(len(voter.said) for voter in voters) >= kills[0]:
                kills.pop(0)
                how = signal.SIGINT if len(kills) % 2 else signal.SIGKILL
                assert server.stop(how) in ((0, 130) if how == signal.SIGINT else (-signal.SIGKILL,))
                server.start()
    finally:
        for voter in voters:
            voter.ended = True
    return voters, len(kills), time.perf_counter() - begin


def run(folder, n_voters, n_votes, n_kills, database=None):
    """Let them vote, and return what is wrong, with the seconds in all and of each vote."""
    with Server(folder, database) as server:
        voters, n_left, seconds = _vote(server, n_voters, n_votes, n_kills)
    problems = [problem for voter in voters for problem in voter.problems] + [f"{n_left} kills too few"] * bool(n_left)
    with Votes(database or Path(folder, "arena.sqlite")) as votes:
        found = {}
        for vote in votes:
            found.setdefault(vote.voter, []).append((vote.battle, vote.winner))
    for voter in voters:
        said = sorted(voter.said.items())
        if sorted(found.pop(voter.name_in_database, [])) != said or len(said) != n_votes // n_voters:
            problems.append(f"the votes of {voter.name_in_database} are not those that it gave")
    problems += [f"{name} is no voter of ours" for name in found]
    return problems, seconds, sorted(s for voter in voters for s in voter.seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--voters", type=int, default=50)
    parser.add_argument("--votes", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--database")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        problems, seconds, each = run(folder, args.voters, args.votes, args.kills, args.database)
    print(*problems, sep="\n", end="")
    print(f"{args.voters} voters gave {len(each):,} votes in {seconds:.0f} s, with {args.kills} kills: ", end="")
    print(
        f"{len(problems)} problems; a vote took {each[len(each) // 2]:.3f} s, the slowest but one in a hundred ", end=""
    )
    print(f"{each[-len(each) // 100]:.3f} s")
    sys.exit(bool(problems))
