"""The filter of near-duplicates on 50,000 instructions, and the loop over the whole pool on the first 2,000.

    python benchmarks/near_duplicates.py [--out FOLDER]

Two corpora, both shuffled with a fixed seed. The first has sentences from the docstrings of installed packages, which
are as varied as written English, and repeat each other as programmers do. The second is made of six words from a list
of 300, the most frequent ones far more often, and eight of a template, so that nearly all texts have much in common.

The loop compares each instruction with all of the pool by rouge-score, as the published code of Self-Instruct does. On
the first 2,000 instructions it must refuse the same ones. Its time on 50,000 is extrapolated with the square of their
number, from what it takes for each pair.

The goal is for seconds of the processor: all runs in one thread, and these do not count what else the machine does.
"""

import argparse
import ast
import random
import re
import sysconfig
import time
import warnings
from pathlib import Path

from rouge_score import rouge_scorer

from llm_anatomy.data_generation.filters import NearDuplicates

GOAL = 60.0
TEMPLATES = ("Tell me whether a {} {} and a {} {} are {} than {}.", "Write a story about {} {} {} with {} {} and {}.")


def sentences(n):
    """At least n different sentences of 4 to 60 words, if there are as many, from the docstrings of shuffled files."""
    found = {}
    folders = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")]
    paths = sorted({path for folder in folders for path in folder.rglob("*.py")})
    random.Random(0).shuffle(paths)
    for path in paths:
        try:
            with warnings.catch_warnings(action="ignore"):
                nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        except (SyntaxError, ValueError, OSError, RecursionError):
            continue
        for node in nodes:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for text in re.split(r"(?<=[.!?])\s+|\n\s*\n", ast.get_docstring(node) or ""):
                    words = text.split()
                    if 4 <= len(words) <= 60 and words[0][0].isupper():
                        found[" ".join(words)] = None
        if len(found) >= n:
            break
    return list(found)


def templates(n):
    """Instructions that have much in common."""
    draw = random.Random(0)
    words, weights = [f"word{i}" for i in range(300)], [1 / (i + 1) for i in range(300)]
    return [draw.choice(TEMPLATES).format(*draw.choices(words, weights, k=6)) for _ in range(n)]


def ours(texts):
    """Which texts are refused, and the size of the pool at the end."""
    near, refused = NearDuplicates(), []
    for text in texts:
        refused.append(near.refuses(text))
        if not refused[-1]:
            near.add(text)
    return refused, len(near)


def loop(texts, threshold=0.7):
    """The same with a loop over the pool; also the number of pairs that were compared."""
    scorer, pool, refused, n_pairs = rouge_scorer.RougeScorer(["rougeL"]), [], [], 0
    for text in texts:
        words = scorer._tokenizer.tokenize(text)
        refused.append(False)
        for other in pool:
            n_pairs += 1
            # its F may miss the threshold by rounding
            if rouge_scorer._score_lcs(other, words).fmeasure >= threshold - 1e-9:
                refused[-1] = True
                break
        if not refused[-1]:
            pool.append(words)
    return refused, n_pairs


def timed(decide, texts):
    """What was decided, and the seconds that it took, of the processor and by the clock."""
    start = time.process_time(), time.perf_counter()
    return *decide(texts), time.process_time() - start[0], time.perf_counter() - start[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--loop", type=int, default=2_000, help="texts for the loop; default: %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the table")
    args = parser.parse_args()
    lines = []
    for name, corpus in (("sentences of docstrings", sentences), ("two templates", templates)):
        texts = corpus(args.texts)
        random.Random(0).shuffle(texts)
        texts = texts[: args.texts]
        refused, n_pool, cpu, clock = timed(ours, texts)
        missed = "  above the goal" if cpu > GOAL else ""
        print(f"{name}: {len(texts):,} texts, {n_pool:,} of them in the pool", flush=True)
        print(f"  {cpu:.1f} s of the processor, {clock:.1f} s{missed}", flush=True)
        expected, n_pairs, loop_cpu, _ = timed(loop, texts[: args.loop])
        same = "the same" if expected == refused[: args.loop] else "DIFFERENT"
        hours = loop_cpu / n_pairs * n_pool * (n_pool - 1) / 2 / 3600
        print(f"  loop over the pool, {len(expected):,} texts: {loop_cpu:.0f} s of the processor, {same} decisions,")
        print(f"  {sum(expected):,} refused; for all of them {hours:,.1f} hours", flush=True)
        lines.append(
            f"| {name} | {len(texts):,} | {n_pool:,} | {cpu:.1f} s | {clock:.1f} s | "
            f"{loop_cpu:.0f} s, {same}, {sum(expected):,} refused | {hours:,.1f} h |"
        )
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        head = (
            "All instructions in seconds of the processor and by the clock of a busy machine; and the loop over the "
            f"whole pool with rouge-score: the first {args.loop:,}, in seconds of the processor, and its hours for all "
            "of them, extrapolated.\n\n"
            "| corpus | instructions | in the pool | processor | clock | loop | loop for all |\n"
            "| --- | --- | --- | --- | --- | --- | --- |\n"
        )
        (args.out / "near-duplicates-cpu.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
