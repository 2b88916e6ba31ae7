"""Time two contestants side by side: what every benchmark here shares."""

import argparse
import functools
import statistics
import time

import torch


def once(function, inputs, backward=False):
    """Seconds for one run of ``function(*inputs)``: forward, or forward and backward to the inputs and parameters."""
    leaves = [x.detach().requires_grad_(backward) if x.is_floating_point() else x for x in inputs]
    on_gpu = any(x.is_cuda for x in inputs)
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.set_grad_enabled(backward):
        outputs = function(*leaves)
    if backward:
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        torch.autograd.backward(outputs, [torch.ones_like(x) for x in outputs])
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def ratios(ours, peer, inputs, backward=False, rounds=15):
    """Our time over the peer's and the peer's seconds, round by round, in changing order; each time is the best of as
    many runs as fill a few milliseconds."""
    once(ours, inputs, backward)
    runs = max(1, min(50, int(0.004 / once(peer, inputs, backward))))
    both = {"peer": peer, "ours": ours}
    times = take_turns({name: best_of(runs, f, inputs, backward) for name, f in both.items()}, rounds)
    return over(times, "ours", "peer")


def best_of(runs, function, inputs, backward=False):
    """What times so many runs and gives the seconds of the fastest."""
    return lambda: min(once(function, inputs, backward) for _ in range(runs))


def take_turns(contestants, rounds):
    """What each contestant, a function that gives seconds, gave in each round; they run in an order that rotates."""
    times, names = {name: [] for name in contestants}, list(contestants)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            times[name].append(contestants[name]())
    return times


def over(times, ours, peer):
    """The ratio of two contestants and the peer's seconds, round by round."""
    return [(a / b, b) for a, b in zip(times[ours], times[peer], strict=True)]


def summary(measured):
    """The median ratio, its quartiles, and the peer's median milliseconds."""
    low, middle, high = statistics.quantiles([ratio for ratio, _ in measured], n=4)
    return middle, low, high, statistics.median(seconds for _, seconds in measured) * 1e3


def row(label, measured, goal=None):
    """Print one line of a table, with a word where the goal (times 1.05: within 5 % counts as equal) is missed."""
    middle, low, high, milliseconds = summary(measured)
    missed = goal is not None and middle > goal * 1.05
    print(
        f"{label} {middle:6.2f}  [{low:.2f}, {high:.2f}] {milliseconds:10.3f}{'  above the goal' if missed else ''}",
        flush=True,
    )


def arguments(description, *more):
    """``--rounds`` and ``--device``, as every benchmark has them, and the line that says what was measured where.
    ``more`` are parsers of further arguments."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, parents=more, formatter_class=style)
    parser.add_argument("--rounds", type=int, default=15, help="at least 9 (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--backend", help="of torch.compile: aot_eager makes no kernels, which tries a command quickly")
    given = parser.parse_args()
    if given.rounds < 9:
        parser.error(f"--rounds {given.rounds} must be at least 9")
    if given.backend:
        torch.compile = functools.partial(torch.compile, backend=given.backend)
    torch.manual_seed(0)
    print(
        f"torch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads, "
        f"median of {given.rounds} alternating rounds"
    )
    return given


def beside(ours, peers, inputs, backward=False, rounds=15):
    """Ours beside several peers: the name of the fastest, and rounds against it as from ``ratios``. All run in each
    round, in an order that rotates, each as the best of as many runs as fill a few milliseconds."""
    contestants = {"ours": ours} | peers
    for function in contestants.values():
        once(function, inputs, backward)
    runs = max(1, min(50, int(0.004 / once(ours, inputs, backward))))
    times = take_turns({name: best_of(runs, f, inputs, backward) for name, f in contestants.items()}, rounds)
    best = min(peers, key=lambda name: statistics.median(times[name]))
    return best, over(times, "ours", best)
