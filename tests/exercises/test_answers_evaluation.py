"""Answers that students give to the exercises of chapter 16: right ones pass, wrong ones are told what is wrong."""

import math
import re
import string
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.evaluation.agreement import cohen_kappa
from llm_anatomy.evaluation.arena import battles, elo, ranks
from llm_anatomy.evaluation.intervals import standard_error
from llm_anatomy.evaluation.multiple_choice import choice_scores, choose
from llm_anatomy.evaluation.text_metrics import bleu_by_hand, exact_match, ngram_precisions, token_f1
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"evaluation/{name}", answer)


def master(name):
    return load(ROOT / "exercises" / "evaluation" / name)


def solution(name):
    return master(name).run()[name]


# What the package says, as answers


def bleu_of_the_package(translations, references, max_n):
    return bleu_by_hand(*([" ".join(words) for words in texts] for texts in (translations, references)), max_n) / 100


def choices_of_the_package(choices, n_tokens, log_probs, alone):
    rows = log_probs[None], n_tokens[None], torch.tensor([[*map(len, choices)]]), alone[None]
    return {name: choose(score)[0] for name, score in choice_scores(*rows).items()}


def elo_of_the_package(n_models, pairs, scores, k, start):
    names = [f"m{i}" for i in range(n_models)]
    return elo.elo_ratings(battles.Battles(names, *pairs.T, scores), k, start=start)


PACKAGE = {
    "squad_f1": lambda prediction, answers: (exact_match(prediction, answers), token_f1(prediction, answers)),
    "choose_by_likelihood": choices_of_the_package,
    "clustered_error": lambda scores, texts: [standard_error(scores), standard_error(scores, texts)],
    "leaking_elo": elo_of_the_package,
    "rank_upper_bound": lambda score, plus, minus: ranks.rank_upper_bound(score - minus, score + plus),
    "averaged_bleu": bleu_of_the_package,
}


@pytest.mark.parametrize("name", PACKAGE)
def test_what_the_package_computes_passes(name):
    result = told(name, PACKAGE[name])
    assert result.status == "passed", result


def test_clipped_counts_and_kappa_are_those_of_the_package():
    text, reference = "so it is so it", "it is what it is"
    pair = ngram_precisions([text], [reference], 2)
    assert [solution("clipped_precision")(text.split(), [reference.split()], n) for n in (1, 2)] == pair
    first, second = (
        [1, 2, 2, 3, 1, 3],
        [1, 3, 2, 3, 2, 1],
    )  # the package takes the levels that occur, and all of 1 to 3 do
    kappas = cohen_kappa(first, second), cohen_kappa(first, second, "quadratic")
    assert solution("weighted_kappa")(first, second, 3) == pytest.approx(kappas)


def test_the_gradient_is_that_of_differences():
    wins, theta = torch.tensor([[0.0, 3, 1], [2, 0, 0], [4, 1, 0]]), torch.tensor([0.3, -0.2, 0.6], dtype=torch.float64)
    _, gradient = solution("bradley_terry_gradient")(wins, theta)
    for i, step in enumerate(torch.eye(3, dtype=torch.float64) * 1e-4):
        up, down = (solution("bradley_terry_gradient")(wins, theta + way * step)[0] for way in (1, -1))
        assert float((up - down) / 2e-4) == pytest.approx(float(gradient[i]), abs=1e-6)


# Right answers of many forms


def autograd(wins, theta):
    theta = theta.clone().requires_grad_()
    total = (wins * F.logsigmoid(theta[:, None] - theta)).sum()
    return total, torch.autograd.grad(total, theta, retain_graph=True)[0]


def simulated(n_texts, n_questions, shared):
    parts = torch.randn(20_000, n_texts, 1) * shared**0.5
    scores = parts + torch.randn(20_000, n_texts, n_questions) * (1 - shared) ** 0.5
    inside = scores.mean((1, 2)).abs() <= 1.96 / (n_texts * n_questions) ** 0.5
    return inside.double().mean(), (scores[..., 0].mean(1).abs() <= 1.96 / n_texts**0.5).double().mean()


def exact_kappas(first, second, n_levels):
    def kappa(weight):
        own = sum(weight(a, b) for a, b in zip(first, second, strict=True))
        return 1 - Fraction(own * len(first), sum(weight(a, b) for a in first for b in second))

    return kappa(lambda a, b: int(a != b)), kappa(lambda a, b: (a - b) ** 2)


def tensors_of(name):
    return lambda rows: {pair: torch.tensor(values) for pair, values in solution(name)(rows).items()}


def other(name, **entries):
    return lambda: solution(name)() | {entry.replace("_", " "): value for entry, value in entries.items()}


def crossed_off(translation, references, n):
    """Counts by crossing off a pool of n-grams, whose counts are the largest ones of the references."""

    def runs(words):
        return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]

    pool = Counter()
    for reference in references:
        pool |= Counter(runs(reference))
    n_found = 0
    for run in runs(translation):
        n_found += pool[run] > 0
        pool[run] -= 1
    return [n_found, max(0, len(translation) - n + 1)]


def errors_of_pairs(scores, texts):
    """The clustered error from a matrix that says which questions share a text."""
    d, n_texts = scores - scores.mean(), len(set(texts.tolist()))
    same = (texts[:, None] == texts).to(d.dtype)
    return scores.std() / len(d) ** 0.5, (n_texts / (n_texts - 1) * (d @ same @ d)).clamp(min=0).sqrt() / len(d)


def kappa_of_moments(first, second, n_levels):
    """The quadratic kappa from means and variances."""
    a, b = torch.tensor(first).double(), torch.tensor(second).double()
    chance = sum((a == i).double().mean() * (b == i).double().mean() for i in range(1, n_levels + 1))
    spread = a.var(unbiased=False) + b.var(unbiased=False) + (a.mean() - b.mean()) ** 2
    return torch.stack([((a == b).double().mean() - chance) / (1 - chance), 1 - ((a - b) ** 2).mean() / spread])


def sorted_ranks(score, plus, minus):
    """Ranks by searching in the sorted lower ends."""
    low = (score - minus).sort().values
    return len(low) - torch.searchsorted(low, (score + plus).contiguous(), right=True) + 1


def softmax_of_outcomes(rating_a, rating_b, nu):
    d = (rating_a - rating_b) / 800 * math.log(10)
    win, tie, loss = torch.tensor([d, math.log(nu) if nu else -math.inf, -d], dtype=torch.float64).softmax(0).tolist()
    return win, tie, loss, win + tie / 2


def bleu_of_logarithms(translations, references, max_n):
    counts = np.zeros((max_n, 2))
    for translation, reference in zip(translations, references, strict=True):
        for n in range(max_n):
            counts[n] += crossed_off(translation, [reference], n + 1)
    if not counts[:, 0].all():
        return 0
    n_words, n_reference = (sum(map(len, texts)) for texts in (translations, references))
    return math.exp(min(0, 1 - n_reference / n_words) + np.log(counts[:, 0] / counts[:, 1]).mean())


def found_as_strings(questions, texts, is_right, n):
    def words(text):
        return [word for word in (piece.strip(string.punctuation).lower() for piece in text.split()) if word]

    def hit(own):
        k = min(n, len(own))
        runs = [f" {' '.join(own[i : i + k])} " for i in range(len(own) - k + 1)]
        return any(run in f" {' '.join(words(text))} " for run in runs for text in texts)

    right, hits = np.array(is_right, float), np.array([hit(words(question)) for question in questions])
    return [int(hits.sum()), right.mean(), right[~hits].mean() if not hits.all() else 0.0]


RIGHT = {
    "perplexities_on_paper": [
        lambda: {"A": 1, "B": Fraction(5, 6), "C": "1.000", "best": "model B", "needed": np.float32(10.08)},
        other("perplexities_on_paper", best="B."),
    ],
    "clipped_precision": [
        lambda *given: np.array(solution("clipped_precision")(*given), dtype=float),
        crossed_off,
    ],
    "squad_f1": [lambda *given: np.float32(solution("squad_f1")(*given))],
    "choose_by_likelihood": [
        lambda *given: {name: np.float64(i) for name, i in reversed(solution("choose_by_likelihood")(*given).items())},
    ],
    "thirteen_against_175": [
        lambda: {name: str(value).upper() for name, value in solution("thirteen_against_175")().items()},
        lambda: solution("thirteen_against_175")() | {"PIQA": "noise", "questions for OBQA": "13,000"},
    ],
    "clustered_error": [lambda *given: torch.tensor(solution("clustered_error")(*given)), errors_of_pairs],
    "weighted_kappa": [exact_kappas, kappa_of_moments],
    "leaking_elo": [
        lambda *given: solution("leaking_elo")(*given).float(),
        lambda *given: [*PACKAGE["leaking_elo"](*given)],
    ],
    "bradley_terry_gradient": [autograd],
    "rank_upper_bound": [lambda *given: solution("rank_upper_bound")(*given).to(torch.int16).numpy(), sorted_ranks],
    "davidson_probabilities": [
        lambda *given: [Fraction(p) for p in solution("davidson_probabilities")(*given)],
        softmax_of_outcomes,
    ],
    "averaged_bleu": [lambda *given: np.float32(solution("averaged_bleu")(*given)), bleu_of_logarithms],
    "too_narrow": [simulated],
    "read_the_board": [
        other("read_the_board", sure_pair="C and D", B_against_D="60%"),
        other("read_the_board", sure_pair={"D", "C"}, fewest_votes="Model E", rank_of_E="4", B_against_D="0.60"),
        other("read_the_board", sure_pair="D/C", B_against_D=torch.tensor(0.6)),
    ],
    "clean_votes": [tensors_of("clean_votes")],
    "contaminated": [lambda *given: torch.tensor(solution("contaminated")(*given)), found_as_strings],
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
@pytest.mark.filterwarnings("error")
def test_right_answers_pass_whatever_their_form(name, answer):
    result = told(name, answer)
    assert result.status == "passed", result


# Wrong answers


def bare(text):
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def with_words(split):
    """The exact match and F1 of words that are split in some way."""

    def answer(prediction, answers):
        own, pairs = split(prediction), [split(each) for each in answers]

        def f1(wanted):
            both = len(own) + len(wanted)
            return 2 * (Counter(own) & Counter(wanted)).total() / both if own and wanted else float(own == wanted)

        return float(own in pairs), max(map(f1, pairs))

    return answer


def without_articles(words):
    return [word for word in words if word not in ("a", "an", "the")]


def chosen_with(length):
    def answer(choices, n_tokens, log_probs, alone):
        lengths = torch.tensor([length(choice) for choice in choices])
        found = solution("choose_by_likelihood")(choices, n_tokens, log_probs, alone)
        return found | {"per_character": int((log_probs / lengths).argmax())}

    return answer


def sum_of(logarithm):
    def answer(wins, theta):
        logs = logarithm(torch.sigmoid(theta[:, None] - theta))
        return (wins * logs).sum(), solution("bradley_terry_gradient")(wins, theta)[1]

    return answer


def bleu_that_skips(translations, references, max_n):
    """Multiplies only the precisions that are not 0."""
    grams = [
        [
            [Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in texts]
            for texts in (translations, references)
        ]
        for n in range(1, max_n + 1)
    ]
    counts = [
        (sum((a & b).total() for a, b in zip(*both, strict=True)), sum(a.total() for a in both[0])) for both in grams
    ]
    n_words, n_reference = (sum(map(len, texts)) for texts in (translations, references))
    product = math.prod(matches / total for matches, total in counts if matches)
    return min(1.0, math.exp(1 - n_reference / n_words)) * product ** (1 / max_n)


def drawn_with(text_shape=lambda *sizes: (*sizes[:2], 1), spread=math.sqrt):
    def answer(n_texts, n_questions, shared):
        sizes = 20_000, n_texts, n_questions
        parts = spread(shared) * torch.randn(*text_shape(*sizes), generator=torch.Generator().manual_seed(1))
        scores = parts + spread(1 - shared) * torch.randn(*sizes, generator=torch.Generator().manual_seed(2))
        inside = scores.mean((1, 2)).abs() <= 1.96 / (n_texts * n_questions) ** 0.5
        return inside.double().mean(), (scores[..., 0].mean(1).abs() <= 1.96 / n_texts**0.5).double().mean()

    return answer


def words_of(strip):
    return lambda text: [word for word in map(strip, text.lower().split()) if word]


STRIPPED = words_of(lambda piece: piece.strip(string.punctuation))


def contaminated_by(is_hit, length=lambda n: n, words=STRIPPED):
    """Counts a question if so many of its runs stand in the texts as ``is_hit`` says."""

    def answer(questions, texts, is_right, n):
        def runs(text, k):
            own = words(text)
            return [tuple(own[i : i + k]) for i in range(len(own) - k + 1)]

        def hit(question):
            k = min(length(n), len(words(question)))
            return is_hit(run in {run for text in texts for run in runs(text, k)} for run in runs(question, k))

        clean = [right for right, question in zip(is_right, questions, strict=True) if not hit(question)]
        n_hits = len(questions) - len(clean)
        return n_hits, sum(is_right) / len(is_right), sum(clean) / len(clean) if clean else 0

    return answer


def votes(change=lambda row: row, keep=lambda rows: rows):
    return lambda rows: solution("clean_votes")(keep([row | change(row) for row in rows]))


def contaminated_with(split):
    """The right answer for texts that are split in some other way, whose words are then joined again."""

    def answer(questions, texts, is_right, n):
        joined = ([" ".join(split(text)) or "-" for text in each] for each in (questions, texts))
        return solution("contaminated")(*joined, is_right, n)

    return answer


def found_in_text(questions, texts, is_right, n):
    def words(text):
        return [word for word in (piece.strip(string.punctuation) for piece in text.lower().split()) if word]

    def hit(own, k):
        return any(" ".join(own[i : i + k]) in " ".join(words(t)) for i in range(len(own) - k + 1) for t in texts)

    hits = [hit(words(question), min(n, len(words(question)))) for question in questions]
    clean = [right for right, each in zip(is_right, hits, strict=True) if not each]
    return sum(hits), sum(is_right) / len(is_right), sum(clean) / len(clean) if clean else 0


def squad_with(matches):
    """Nearly the right answer, whose matches are counted from the counters of the words of both sides."""

    def answer(prediction, answers):
        def f1(one, other):
            a, b = (Counter(without_articles(bare(text.lower()).split())) for text in (one, other))
            return 2 * matches(a, b) / (a.total() + b.total()) if a and b else float(a == b)

        return solution("squad_f1")(prediction, answers)[0], max(f1(prediction, each) for each in answers)

    return answer


def squad_of_one_answer(best):
    """Both numbers from a single answer, one of those with the largest F1."""

    def answer(prediction, answers):
        scores = [solution("squad_f1")(prediction, [each]) for each in answers]
        largest = max(f1 for _, f1 in scores)
        return best([each for each in scores if each[1] == largest])

    return answer


WRONG = [
    ("squad_f1", squad_of_one_answer(lambda scores: scores[0]), "by one answer whose F1 is the largest"),
    ("squad_f1", squad_of_one_answer(lambda scores: scores[-1]), "exact match"),
    ("perplexities_on_paper", other("perplexities_on_paper", best="A", needed=16), "fewer bits per byte"),
    ("perplexities_on_paper", other("perplexities_on_paper", B=0.83), "only by rounding"),
    ("perplexities_on_paper", other("perplexities_on_paper", needed=10), "to one decimal"),
    ("perplexities_on_paper", other("perplexities_on_paper", C="1 bit"), "not a number"),
    (
        "clipped_precision",
        lambda t, rs, n: (solution("clipped_precision")(t, rs, n)[0], len(t) - n + 1),
        "your denominator is not 0",
    ),
    (
        "clipped_precision",
        lambda t, rs, n: solution("clipped_precision")([*map(str.lower, t)], [[*map(str.lower, r)] for r in rs], n),
        "capital and small letters",
    ),
    ("clipped_precision", lambda t, rs, n: 0.5, "not their ratio"),
    ("squad_f1", with_words(lambda text: bare(" ".join(without_articles(text.lower().split()))).split()), "quotation"),
    ("squad_f1", with_words(lambda text: bare(re.sub(r"\b(a|an|the)\b", " ", text.lower())).split()), "A-Team"),
    ("squad_f1", with_words(lambda text: without_articles(bare(text).split(" "))), "an empty word"),
    ("squad_f1", with_words(lambda text: without_articles(re.findall("[^ ]+", bare(text)))), "A line break"),
    (
        "squad_f1",
        lambda prediction, answers: (
            solution("squad_f1")(prediction, answers)[0],
            solution("squad_f1")(prediction, answers[:1])[1],
        ),
        "Your F1 compares with the first accepted answer only",
    ),
    ("choose_by_likelihood", chosen_with(lambda choice: len(choice.strip())), "spaces at the ends"),
    ("choose_by_likelihood", chosen_with(lambda choice: len(choice.replace(" ", ""))), "do not count the spaces. They"),
    ("choose_by_likelihood", chosen_with(lambda choice: len(choice.encode())), "a number of bytes"),
    ("choose_by_likelihood", chosen_with(lambda choice: len(choice) + 1), "one more character"),
    ("thirteen_against_175", other("thirteen_against_175", questions_for_OBQA=26150), "twice the right one"),
    ("thirteen_against_175", other("thirteen_against_175", questions_for_OBQA=13615), "two standard errors"),
    ("thirteen_against_175", other("thirteen_against_175", questions_for_OBQA=12576), "how many questions OBQA lacks"),
    ("thirteen_against_175", other("thirteen_against_175", questions_for_OBQA=2557), "the root of n"),
    ("thirteen_against_175", other("thirteen_against_175", questions_for_OBQA=3404, WinoGrande="better"), "not one"),
    (
        "clustered_error",
        lambda s, t: (
            (s.mean() * (1 - s.mean()) / len(s)).sqrt(),
            solution("clustered_error")(s, t)[1],
        ),
        "meant for scores of 0 or 1",
    ),
    ("weighted_kappa", lambda first, second, n: [0.5], "two numbers"),
    ("bradley_terry_gradient", sum_of(torch.log), "infinite"),
    ("bradley_terry_gradient", sum_of(lambda p: p.clamp(min=1e-7).log()), "too close to zero"),
    ("bradley_terry_gradient", sum_of(lambda p: (p + 1e-12).log()), "too close to zero"),
    ("bradley_terry_gradient", sum_of(lambda p: p.log().nan_to_num(neginf=0)), "too close to zero"),
    ("averaged_bleu", bleu_that_skips, "You leave out the lengths"),
    ("too_narrow", drawn_with(spread=float), "are variances"),
    ("too_narrow", drawn_with(lambda n, n_texts, n_questions: (n, 1, 1)), "Each text has its own"),
    ("too_narrow", drawn_with(lambda *sizes: sizes), "the 95 % that the interval promises"),
    ("read_the_board", other("read_the_board", B_against_D=0.54), "odds of ten to one"),
    ("read_the_board", other("read_the_board", B_against_D=0.4), "wins more than half"),
    ("read_the_board", other("read_the_board", B_against_D=1.5), "The chance that B wins is above 1"),
    ("read_the_board", other("read_the_board", B_against_D=math.nan), "NaN, which is not a number"),
    ("read_the_board", other("read_the_board", rank_of_E=math.nan), "NaN, which is not a number"),
    ("read_the_board", other("read_the_board", B_against_D=1.0), "a lead of 70 points is small"),
    ("read_the_board", other("read_the_board", sure_pair="AC"), "not neighbours"),
    ("read_the_board", other("read_the_board", sure_pair="AC", rank_of_D=5), "not neighbours"),
    ("read_the_board", other("read_the_board", sure_pair="AC", rank_of_D=5), "Your rank of D is too large: E reaches"),
    (
        "read_the_board",
        other("read_the_board", rank_of_E=6, rank_of_D=6),
        "Your rank of D and rank of E are too large.",
    ),
    ("read_the_board", other("read_the_board", rank_of_E=3), "Your rank of E is too small."),
    ("read_the_board", other("read_the_board", fewest_votes="A"), "Your model with the fewest votes is not right."),
    ("squad_f1", squad_with(lambda a, b: len(a & b)), "each common word as one match"),
    ("squad_f1", squad_with(lambda a, b: len(a | b)), "F1"),
    ("squad_f1", squad_with(lambda a, b: sum(max(a[word], b[word]) for word in a.keys() & b.keys())), "F1"),
    ("squad_f1", squad_with(lambda a, b: sum(a[word] for word in a.keys() & b.keys())), "less often"),
    ("squad_f1", squad_with(lambda a, b: sum(b[word] for word in a.keys() & b.keys())), "F1"),
    ("clean_votes", votes(lambda row: {"battle": row["battle"] + row["voter"], "voter": "x"}), "Use a pair"),
    ("clean_votes", votes(lambda row: {"winner": "tie"} if row["winner"].lower()[:3] == "tie" else {}), "begins with"),
    ("clean_votes", lambda rows: solution("clean_votes")(rows[::-1]), "you count the last one"),
    ("contaminated", contaminated_with(lambda text: re.findall(r"\w+", text)), "such as a hyphen"),
    ("contaminated", contaminated_with(lambda text: bare(text).split()), "You delete punctuation inside"),
    ("contaminated", found_in_text, "inside of a word"),
    ("contaminated", contaminated_by(any, words=words_of(lambda p: p.rstrip(string.punctuation))), "right end"),
    ("contaminated", contaminated_by(any, words=words_of(lambda p: p.strip(".,;:!?"))), "more characters, such as"),
    ("contaminated", contaminated_by(all), "that all runs of a question stand"),
    ("contaminated", contaminated_by(any, lambda n: n + 1), "runs of n + 1 words"),
    (
        "squad_f1",
        lambda prediction, answers: (
            solution("squad_f1")(prediction, answers[:1])[0],
            solution("squad_f1")(prediction, answers)[1],
        ),
        "Your exact match compares with the first accepted answer only",
    ),
    (
        "clean_votes",
        lambda rows: {pair.replace(" ", "_"): values for pair, values in solution("clean_votes")(rows).items()},
        "a value for 'a_b', which should not be there",
    ),
    (
        "clustered_error",
        lambda s, t: (solution("clustered_error")(s, t)[0], solution("clustered_error")(s, t)[1] ** 2),
        "If every text has one question",
    ),
    (
        "clustered_error",
        lambda s, t: solution("clustered_error")(s, torch.cat([t[:1], t[1:] != t[:-1]]).cumsum(0)),
        "where the number changes",
    ),
    (
        "bradley_terry_gradient",
        lambda wins, theta: (
            solution("bradley_terry_gradient")(wins, theta)[0],
            (wins * torch.sigmoid(theta - theta[:, None])).sum(1),
        ),
        "only contains the battles that a model has won",
    ),
    ("rank_upper_bound", lambda score, plus, minus: (-score).argsort().argsort() + 1, "the order of the scores"),
    ("leaking_elo", lambda n, pairs, scores, *more: solution("leaking_elo")(n, pairs, scores.long(), *more), "a tie"),
    (
        "averaged_bleu",
        lambda translations, references, max_n: solution("averaged_bleu")(
            [sum(translations, [])], [sum(references, [])], max_n
        ),
        "twice, BLEU should stay",
    ),
]


@pytest.mark.parametrize(("name", "answer", "words"), WRONG)
def test_wrong_answers_are_told(name, answer, words):
    result = told(name, answer)
    assert result.status != "passed" and words in " ".join(f"{result.example} {result.message}".split()), result


@pytest.mark.parametrize("name", ["leaking_elo", "averaged_bleu"])
def test_code_with_the_mistake_does_not_pass(name):
    assert told(name, master(name).run()["broken"]).status == "not attempted"
