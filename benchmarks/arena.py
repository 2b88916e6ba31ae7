"""Rating 1.6 million battles of 123 models, beside logistic regression on the matrix of all battles.

    python benchmarks/arena.py [--out FOLDER] [--peer-battles N]

The boards' first published code wrote each battle as a row of a matrix with one column for each model, twice, since a
tie is half a win for both, and gave the matrix to scikit-learn's logistic regression. Ours counts the wins and ties of
each pair first, so that Newton's method works on a matrix of 123 by 123. Both must give the same ratings within a tenth
of a point, which is checked first; the peer stops at its own tolerance. The peer gets fewer battles, since its matrix
has 3 GB for all of them.

In each round both run once, in changing order; what is printed is the median of the ratios of our time to the peer's
(and their quartiles). Then the seconds of our fits of all battles: with sandwich intervals, with 100 bootstrap samples,
with Davidson's ties, and with a covariate for style, which needs all battles and not only the counts. scikit-learn is
read from ``_build/released``, where ``.ci/run`` installs it, if the environment does not have it.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
from measure import arguments, row, summary
from tokenization import timed

from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.simulation import SimulatedArena

N_MODELS, N_BATTLES, GOAL_SECONDS = 123, 1_600_000, 10
POINTS = 400 / math.log(10)


def arena():
    """As many models as on the board of August 2024, spread over as many points."""
    strengths = np.linspace(800, 1300, N_MODELS)
    styles = np.random.default_rng(0).normal(0, 1, N_MODELS)
    names = [f"model {i}" for i in range(N_MODELS)]
    return SimulatedArena(dict(zip(names, strengths, strict=True)), dict(zip(names, styles, strict=True)), 20, 0.5)


def full_matrix(battles):
    """Ratings by logistic regression on all battles, each twice."""
    from sklearn.linear_model import LogisticRegression

    x = np.zeros((len(battles), N_MODELS))
    x[np.arange(len(battles)), battles.first] = 1
    x[np.arange(len(battles)), battles.second] = -1
    score = battles.score.numpy()
    regression = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-6, max_iter=1000)
    won = np.repeat([1, 0], len(battles))
    theta = regression.fit(np.vstack([x, x]), won, np.concatenate([score, 1 - score])).coef_[0]
    return 1000 + POINTS * (theta - theta.mean())


def seconds(fit):
    """Seconds by the clock and of the processor; the second do not count what else the machine does."""
    start = time.perf_counter(), time.process_time()
    fit()
    return time.perf_counter() - start[0], time.process_time() - start[1]


if __name__ == "__main__":
    more = argparse.ArgumentParser(add_help=False)
    more.add_argument("--out", type=Path, help="folder for the table")
    more.add_argument(
        "--peer-battles", type=int, default=100_000, help="battles beside the peer (default: %(default)s)"
    )
    given = arguments(__doc__, more)
    sys.path.append(str(Path(__file__).resolve().parents[1] / "_build/released"))
    lines = ["| fit | battles | result |", "| --- | --- | --- |"]
    some, _ = arena().draw(given.peer_battles)
    try:
        difference = np.abs(full_matrix(some) - bradley_terry(some).ratings.numpy()).max()
    except ImportError:
        print("scikit-learn is not installed: ours alone")
    else:
        assert difference < 0.1, difference
        measured = timed(lambda: lambda: bradley_terry(some), lambda: lambda: full_matrix(some), given.rounds)
        print(f"{'':44} ratio  quartiles     peer (ms)")
        row(f"{'ratings beside the full matrix':44}", measured, 1.0)
        middle, low, high, milliseconds = summary(measured)
        lines.append(
            f"| ratings, beside logistic regression | {given.peer_battles:,} | "
            f"{middle:.4f} [{low:.4f}, {high:.4f}] of {milliseconds / 1000:.1f} s |"
        )
    battles, style = arena().draw(N_BATTLES)
    for name, options in (
        ("sandwich", {}),
        ("bootstrap, 100 samples", {"interval": "bootstrap"}),
        ("Davidson's ties", {"ties": "davidson"}),
        ("with a covariate for style", {"covariates": style}),
    ):
        taken, cpu = sorted(seconds(lambda options=options: bradley_terry(battles, **options)) for _ in range(3))[1]
        above = "  above the goal" if taken > GOAL_SECONDS else ""
        print(f"{name:44} {taken:6.2f} s, {cpu:.2f} s of the processor{above}", flush=True)
        lines.append(f"| {name} | {N_BATTLES:,} | {taken:.2f} s, {cpu:.2f} s of the processor |")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        head = f"{N_MODELS} models; the first row is our time over the peer's, median of {given.rounds} rounds.\n\n"
        (given.out / "arena-cpu.md").write_text(head + "\n".join(lines) + "\n")
