"""What the text of chapter 14 states about its tests and their power, computed again from the stored losses."""

import math
import re
import statistics
from functools import cache

import numpy as np
import pytest
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.data import table
from llm_anatomy.evaluation.significance import holm, paired_t_test, two_sided_p

T_PAIRED, T_UNPAIRED = 2.7764, 2.3060  # 95 %, with 4 and with 8 degrees of freedom


def page(name):
    [found] = [page for page in notebooks.pages(ROOT) if page.docname == f"book/modifications/{name}"]
    return found


@cache
def cell(opening, name="modifications"):
    """The source of the page's cell that contains this line."""
    return next(cell.source for cell in page(name).code if opening in cell.source)


@cache
def text():
    """The words of the chapter, on one line."""
    return " ".join(" ".join(cell.source.split()) for cell in page("modifications").cells)


@cache
def losses():
    found = {}
    for row in table("ablation_losses"):
        found.setdefault(row["name"], {})[row["seed"]] = row["loss"]
    return found


def rows():
    return {row["name"]: row for row in table("ablation_results") if row["name"] != "baseline"}


def runs(name, seeds=range(5)):
    return [losses()[name][seed] for seed in seeds]


# --- Pairs ---


@pytest.mark.syllabus("GT-19")
def test_pairs_take_a_little_from_the_deviation_and_nothing_from_the_interval(capsys):
    assert [round(two_sided_p(t, n), 4) for t, n in ((T_PAIRED, 4), (T_UNPAIRED, 8))] == [0.05, 0.05]
    base, wider, deviations = runs("baseline"), [], []
    for name in rows():
        own = runs(name)
        alone = math.sqrt((statistics.variance(own) + statistics.variance(base)) / 5)
        interval = paired_t_test(own, base)
        wider.append((interval.high - interval.low) / 2 / (T_UNPAIRED * alone))
        deviations.append(statistics.stdev(a - b for a, b in zip(own, base, strict=True)) / math.sqrt(5) / alone)
    assert statistics.median(deviations) < 0.9 and 1 < statistics.median(wider) < 1.05
    known = imported("modifications/modifications") | {"losses": losses(), "ours": rows()}
    exec(cell("alone = math.hypot("), known)
    said = capsys.readouterr().out
    assert f"median {statistics.median(wider):.2f}" in said
    assert f"wider in {sum(ratio > 1 for ratio in wider)} of 51 rows" in said
    assert "more runs" not in said and "costs nothing" not in text()


# --- Within noise ---


@pytest.mark.syllabus("GT-19", "GT-51")
@pytest.mark.parametrize("name", ["modifications", "rows"])
def test_no_interval_without_zero_is_called_within_noise(name):
    known = {}
    source = cell("def verdict(", name)
    exec(source[source.index("def verdict(") :].split("\n\n\n")[0], known)
    for kind in ("", "time_", "flops_"):
        again = [row for row in table("ablation_confirmation") if row["name"] != "baseline"]
        for row in [*rows().values(), *again]:
            is_without = row[f"{kind}low"] > 0 or row[f"{kind}high"] < 0
            said = known["verdict"](row, kind)
            assert (said == "within noise") <= (not is_without)
            assert said == row[f"{kind}verdict"] or said == "clear uncorrected"
            assert (said == "clear uncorrected") <= (is_without and row[f"{kind}p_holm"] >= 0.05)


@pytest.mark.syllabus("GT-19", "GT-51")
def test_the_cards_do_not_call_an_interval_without_zero_noise():
    known = {}
    exec(cell("def published(", "rows"), known)
    exec(cell("def measured(", "rows"), known)
    for name in rows():
        for row in (known["ours"][name], *([known["again"][name]] if name in known["again"] else [])):
            interval, verdicts = known["measured"](row).split("; ")
            low, high = (float(x.replace("−", "-")) for x in re.search(r"\((\S+) to (\S+)\)", interval).groups())
            assert verdicts.split(", ")[0] != "within noise" or low <= 0 <= high


@pytest.mark.syllabus("GT-19", "GT-51")
def test_all_confirmed_rows_were_clear_only_without_the_correction(capsys):
    exec(cell("def verdict("), known := imported("modifications/modifications"))
    said = capsys.readouterr().out
    confirmed = [row["name"] for row in table("ablation_confirmation") if row["verdict"] == "better"]
    assert len(confirmed) == 9 and {known["verdict"](rows()[name]) for name in confirmed} == {"clear uncorrected"}
    assert known["verdicts"].total() == 51
    assert all(f"{name:18s}{n:3d} of 51" in said for name, n in known["verdicts"].items())


# --- The bad run ---


@pytest.mark.syllabus("GT-51")
def test_many_rows_look_good_where_all_runs_of_the_baseline_are_bad_and_not_one():
    drawn = np.random.default_rng(1).normal(size=(4000, 52, 5))
    differences = drawn[:, 1:] - drawn[:, :1]
    t = differences.mean(-1) / (differences.std(-1, ddof=1) / math.sqrt(5))
    is_lucky, base = (t < -T_PAIRED).sum(1) >= 10, drawn[:, 0]
    assert 0.01 < is_lucky.mean() < 0.04
    assert base[is_lucky].mean() > 0.7  # of five runs, 0 on average
    assert base[is_lucky].min(1).mean() > base.min(1).mean() + 1
    assert base[is_lucky].std(1, ddof=1).mean() < 0.85 * base.std(1, ddof=1).mean()
    assert "if these are bad on average, many rows look good" in text() and "one bad run there" not in text()


def clear(seeds):
    """The rows that are better at 5 % with some seeds, and those of them that are left after the correction."""
    tests = {name: paired_t_test(runs(name, seeds), runs("baseline", seeds)) for name in rows()}
    corrected = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    better = {name for name, test in tests.items() if test.mean < 0 and test.p < 0.05}
    return better, {name for name in better if corrected[name] < 0.05}


@pytest.mark.syllabus("GT-51")
def test_without_the_bad_run_as_many_rows_are_better_and_four_are_left_after_the_correction():
    assert max(losses()["baseline"], key=losses()["baseline"].get) == 4
    with_it, without = clear(range(5)), clear(range(4))
    assert [len(names) for names in (*with_it, *without)] == [10, 0, 10, 4]
    assert "the bad run did not make them look good" in text() and "four of them even after the correction" in text()


@pytest.mark.syllabus("GT-51")
def test_the_first_table_names_ten_rows_if_it_is_read_without_pairs(capsys):
    first = min(losses()["baseline"].values())
    apart = {name for name in rows() if max(runs(name)) < first}
    assert len(apart) == 10 and 51 * 2 / math.comb(15, 5) < 0.05  # the correction's largest factor
    confirmed = {row["name"] for row in table("ablation_confirmation") if row["verdict"] == "better"}
    assert apart - confirmed == {"fixup"} and confirmed < apart
    assert "the table cannot say which" not in text()
    assert "in ten rows, all five runs lie below all ten of the baseline" in text()


# --- Do rankings transfer? ---


def sum_of_signs(a, b):
    signs = np.sign(np.subtract.outer(a, a)) * np.sign(np.subtract.outer(b, b))
    return signs.sum() / 2


@pytest.mark.syllabus("GT-19")
def test_only_the_activations_agree_after_a_correction_for_four_questions(capsys):

    paper = table("narang2021")
    uncertain = {row["row"]: set((row["uncertain_cells"] or "").split(";")) - {""} for row in paper}
    known = imported("modifications/modifications")
    known |= {"paper": paper, "base": paper[0], "results": {row["name"]: row for row in table("ablation_results")}}
    known |= {"uncertain": uncertain, "losses": losses()}
    exec(cell("theirs = {"), known)
    said = dict(re.findall(r"^(\d+ rows[^\n]*|all[^\n]*)\n.*: (.*)$", capsys.readouterr().out, re.MULTILINE))
    rng, p = np.random.default_rng(0), {}
    for label, chosen in known["asked"].items():
        a = np.array([known["theirs"][name] for name in chosen])
        b = np.array([known["results"][name]["loss"] for name in chosen])
        found = abs(sum_of_signs(a, b))
        by_chance = [abs(sum_of_signs(a, rng.permutation(b))) >= found for _ in range(2000)]
        p[label] = (sum(by_chance) + 1) / 2001
    n, s = len(a := known["asked"]["11 rows: activation"]), 33
    assert abs(sum_of_signs([known["theirs"][m] for m in a], [known["results"][m]["loss"] for m in a])) == s
    p["11 rows: activation"] = exact_p(n, s)
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    assert 0.03 < p["all 52 rows"] < 0.05 < 0.09 < corrected["all 52 rows"] < 0.15
    assert {label: "yes" if x < 0.05 else "cannot tell" for label, x in corrected.items()} == said
    assert [label for label in said if said[label] == "yes"] == ["11 rows: activation"]


def exact_p(n, s):
    """Two-sided p-value of Kendall's sum of signs without ties, from the numbers of permutations by inversions."""
    counts = np.ones(1)
    for k in range(2, n + 1):
        counts = np.convolve(counts, np.ones(k))
    signs = np.abs(n * (n - 1) / 2 - 2 * np.arange(len(counts)))
    return counts[signs >= s].sum() / counts.sum()


@pytest.mark.slow
@pytest.mark.syllabus("GT-19")
def test_the_ranking_of_all_rows_hangs_on_the_activations():
    from llm_anatomy.evaluation.significance import kendall_tau_interval

    paper = table("narang2021")
    left = [row for row in table("ablation_results") if paper[row["row"] - 1]["group"] != "activation"]
    low, high = kendall_tau_interval([paper[row["row"] - 1]["final_loss"] for row in left], [r["loss"] for r in left])
    assert low < 0 < high
