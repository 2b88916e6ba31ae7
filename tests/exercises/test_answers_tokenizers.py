"""Answers that students give to the exercises on text as numbers: right ones pass, wrong ones are told what is off."""

import math
import re
from collections import Counter, deque
from fractions import Fraction

import numpy as np
import pytest

from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"tokenizers/{name}", answer)


# Right answers


def mask_of_letters(text):
    pieces = []
    for character in text:
        for same in (str.isalpha, " ".__eq__):
            if pieces and same(character) and all(map(same, pieces[-1])):
                pieces[-1] += character
                break
        else:
            pieces.append(character)
    return pieces


def counted_with_str(text):
    pairs = Counter(a + b for a, b in zip(text, text[1:], strict=False))
    return {pair: text.count(pair) for pair in pairs}


def share_as_a_fraction(training, new, n_words):
    known = [word for word, _ in Counter(training).most_common(n_words)]
    return Fraction(sum(word not in known for word in new), len(new))


def merged_as_a_pattern(ids, left, right, new):
    text = re.sub(rf"\b{left} {right}\b", str(new), " ".join(map(str, ids)))
    return list(map(int, text.split()))


def merged_in_one_pass(ids, left, right, new):
    rest, merged = deque(ids), []
    while rest:
        token = rest.popleft()
        if token == left and rest and rest[0] == right:
            token = rest.popleft() and new
        merged.append(token)
    return merged


def decoded_after_the_cut_at_the_end(ids):
    start = next((i for i, byte in enumerate(ids) if not 128 <= byte < 192), len(ids))
    n_cut = next((n for n in range(1, 4) if n <= len(ids) - start and ids[-n] >= (256 - (128 >> n))), 0)
    return start, bytes(ids[start : len(ids) - n_cut]).decode(errors="strict"), n_cut


def decoded_by_hand(ids):
    """Puts the bits of each character together."""
    start = 0
    while ids[start : start + 1] and ids[start] >> 6 == 0b10:
        start += 1
    text, i = [], start
    while i < len(ids):
        n_more = (ids[i] >= 0xC0) + (ids[i] >= 0xE0) + (ids[i] >= 0xF0)
        if i + n_more >= len(ids):
            break
        code = ids[i] & (0x7F if n_more == 0 else 0x3F >> n_more)
        for byte in ids[i + 1 : i + 1 + n_more]:
            code = code << 6 | byte & 0x3F
        text.append(chr(code))
        i += 1 + n_more
    return start, "".join(text), len(ids) - i


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("readable_part", decoded_after_the_cut_at_the_end),
        ("readable_part", decoded_by_hand),
        ("merge_pair", merged_as_a_pattern),
        ("merge_pair", lambda ids, left, right, new: merged_in_one_pass(tuple(ids), left, right or 0, new)),
        ("pieces_of_code", mask_of_letters),
        ("usable_pairs", counted_with_str),
        ("unknown_share", share_as_a_fraction),
        ("rows_for_tokens", lambda: np.int64(2 * 218_000 * 4096)),
        ("rows_for_tokens", lambda: np.prod([2, 218_000, 4096], dtype=np.int64)),
    ],
)
def test_a_right_answer_passes(name, answer):
    assert told(name, answer).status == "passed", told(name, answer)


# Wrong answers


def longest_mean(text, log_p):
    best = {0: (0.0, [])}
    for end in range(1, len(text) + 1):
        for start in range(end):
            if text[start:end] in log_p:
                total, tokens = best[start]
                new = total + log_p[text[start:end]], [*tokens, text[start:end]]
                if end not in best or new[0] / len(new[1]) > best[end][0] / len(best[end][1]):
                    best[end] = new
    return best[len(text)][1], best[len(text)][0]


def as_a_pattern(text):
    return {text[i : i + 2]: len(re.findall(text[i : i + 2], text)) for i in range(len(text) - 1)}


def in_place(ids, left, right, new):
    i = 0
    while i < len(ids) - 1:
        if ids[i : i + 2] == [left, right]:
            ids[i : i + 2] = [new]
        i += 1
    return ids


def test_the_mean_of_the_logarithms_does_not_find_the_best_cut():
    assert told("best_segmentation", longest_mean).status != "passed"


def test_a_pair_is_not_a_pattern():
    assert told("usable_pairs", as_a_pattern).mistake == "pattern_not_text"


def test_a_list_that_is_changed_is_told_so():
    message = told("merge_pair", in_place).message
    assert "changes its argument ids" in message and "work on a copy" in message


def cut_at_the_start(ids):
    return next((i for i, byte in enumerate(ids) if not 128 <= byte < 192), len(ids))


def every_sign_deleted(ids):
    start, text = cut_at_the_start(ids), bytes(ids).decode(errors="ignore")
    return start, text.replace("\ufffd", ""), len(ids) - start - len(text.encode())


def signs_stripped_from_the_right(ids):
    start = cut_at_the_start(ids)
    text = bytes(ids[start:]).decode(errors="replace").rstrip("\ufffd")
    return start, text, len(ids) - start - len(text.encode())


def signs_stripped_from_the_left(ids):
    start = cut_at_the_start(ids)
    kept = bytes(ids[start:]).decode(errors="ignore")
    n_cut = len(ids) - start - len(kept.encode())
    return start, bytes(ids[: len(ids) - n_cut]).decode(errors="replace").lstrip("\ufffd"), n_cut


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (every_sign_deleted, "signs_taken_out"),
        (signs_stripped_from_the_right, "signs_taken_off_the_end"),
        (signs_stripped_from_the_left, None),
    ],
)
def test_a_replacement_sign_that_is_in_the_text_stays(answer, mistake):
    result = told("readable_part", answer)
    assert result.status in ("failed", "mistake") and result.mistake == mistake, result


def shifted(scores, targets, n_bytes):
    return told_units(scores[:-1], targets[1:], n_bytes) if len(targets) > 1 else told_units(scores, targets, n_bytes)


def told_units(scores, targets, n_bytes):
    losses = -scores.log_softmax(1).gather(1, targets[:, None])
    return losses.mean(), losses.mean().exp(), losses.sum() / np.log(2) / n_bytes


def softmax_before_the_loss(scores, targets, n_bytes):
    return told_units(scores.softmax(1), targets, n_bytes)


@pytest.mark.parametrize(
    ("answer", "mistake"), [(shifted, "next_token_for_target"), (softmax_before_the_loss, "softmax_twice")]
)
def test_common_slips_in_the_loss_are_named(answer, mistake):
    assert told("three_units", answer).mistake == mistake


def joined(separator, pad=""):
    """Replaces the pair in the text of all numbers."""

    def merge_pair(ids, left, right, new):
        text = pad + separator.join(map(str, ids)) + pad
        text = text.replace(f"{pad}{left}{separator}{right}{pad}", f"{pad}{new}{pad}")
        return [int(number) for number in text.split(separator) if number.strip()]

    return merge_pair


@pytest.mark.parametrize("separator", [" ", ",", ", "])
def test_a_pair_is_not_a_part_of_a_text(separator):
    assert joined(separator)([17, 7], 7, 7, 8) == [18]
    assert told("merge_pair", joined(separator)).mistake == "digits_of_other_tokens"


def test_a_pair_that_follows_on_another_is_not_forgotten():
    assert joined(" ", " ")([1, 2, 1, 2], 1, 2, 3) == [3, 1, 2]
    assert told("merge_pair", joined(" ", " ")).mistake == "only_one_of_two_pairs_in_a_row"


def without_what_came_before(text, log_p):
    best, back = {0: 0.0}, {}
    for end in range(1, len(text) + 1):
        for start in range(end):
            token = text[start:end]
            if token in log_p and log_p[token] > best.get(end, -math.inf):
                best[end], back[end] = log_p[token], start
    tokens, end = [], len(text)
    while end:
        tokens.insert(0, text[back[end] : end])
        end = back[end]
    return tokens, best[len(text)]


def test_a_forgotten_score_of_what_came_before_is_named():
    result = told("best_segmentation", without_what_came_before)
    assert result.mistake == "what_came_before_forgotten" and "Add best[m]" in result.message


def test_a_list_of_another_length_is_told_as_a_list():
    def with_an_empty_token(text, log_p):
        return ["", *without_what_came_before(text, log_p)[0]], 0.0

    message = told("best_segmentation", with_an_empty_token).message
    assert "best_segmentation returns, as its first value, a list of 3 values instead of 1." in message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((2.9, 2048 / 2.9, 2.9), ["you divide the context by the first", "the ratio of the numbers of tokens"]),
        ((3.36, 2048, 3.36**2), ["vocabulary of 1024", "is the number of tokens"]),
        ((3.8, 9000, 30), ["is too large", "Your number of bytes in the context and ratio of the pairs are"]),
    ],
)
def test_each_number_that_is_misread_is_told(answer, words):
    result = told("read_the_context", lambda: answer)
    assert result.status == "failed" and all(each in result.message for each in words), result
    assert not any(each in result.message for each in ("follow", "2.88", "not squared", "divided;"))


@pytest.mark.parametrize(("first", "words"), [(1 / 2.88, "is below 1"), (2.3, "vocabulary of 512"), (2.5, "too small")])
def test_numbers_that_are_right_are_not_blamed_for_a_wrong_first_one(first, words):
    message = told("read_the_context", lambda: (first, 5898.24, 8.29)).message
    assert words in message and "context and" not in message and "pairs" not in message


def test_numbers_that_do_not_follow_are_told_what_they_are_compared_with():
    message = told("read_the_context", lambda: (2.7, 5898.24, 8.29)).message
    assert "Your number of bytes in the context and ratio of the pairs are too large for your first number." in message
    assert "NaN, which is not a number" in told("read_the_context", lambda: (2.9, math.nan, 8.3)).message


def from_the_end(words, training, n):
    return sorted(words, key=training.count)[-n:]


def kept_by(kept):
    return lambda training, new, n_words: sum(word not in kept(training, n_words) for word in new) / len(new)


EVERY_WORD_FOR_ZERO = {
    "n_words or None": lambda training, n: [word for word, _ in Counter(training).most_common(n or None)],
    "a slice from the end": lambda training, n: from_the_end([*dict.fromkeys(training)][::-1], training, n),
    "the last of equals": lambda training, n: from_the_end(dict.fromkeys(training), training, n),
}


@pytest.mark.parametrize("how", EVERY_WORD_FOR_ZERO)
def test_a_vocabulary_of_no_words_that_keeps_all_is_told(how):
    result = told("unknown_share", kept_by(EVERY_WORD_FOR_ZERO[how]))
    assert result.status == "mistake" and "If n_words is 0, your vocabulary keeps every word" in result.message
    assert ("keep those that come last" in result.message) == (how == "the last of equals")
