"""Battles: rows, files and arrays say the same, and what is no battle is refused."""

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.arena.battles import Battles, battles_from_rows, count_battles, read_battles

pytestmark = pytest.mark.syllabus("IITD-01", "GT-50")
CSV = "time,model_a,model_b,winner,voter\n1,pea,bean,a,x\n2,bean,corn,tie,y\n3,corn,pea,both_bad,x\n4,pea,bean,b,z\n"


def test_a_file_is_read_like_its_rows(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text(CSV, encoding="utf-8")
    battles = read_battles(path)
    assert battles.models == ("bean", "corn", "pea") and len(battles) == 4
    assert battles.first.tolist() == [2, 0, 1, 2] and battles.second.tolist() == [0, 1, 2, 0]
    assert battles.score.tolist() == [1, 0.5, 0.5, 0] and battles.voter.tolist() == [0, 1, 0, 2]
    assert battles.winner_names() == ["pea", None, None, "bean"]


def test_a_file_is_in_utf_8(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_bytes("model_a,model_b,winner\nécole,über,a\n".encode())
    assert read_battles(path).models == ("école", "über")


def test_the_words_of_the_boards_own_data_are_read():
    rows = [{"model_a": "x", "model_b": "y", "winner": word} for word in ("model_a", "model_b", "tie (bothbad)")]
    battles = battles_from_rows(rows, models=["y", "x"])
    assert battles.first.tolist() == [1, 1, 1] and battles.score.tolist() == [1, 0, 0.5] and battles.voter is None


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_arrays_of_any_kind_make_battles(kind):
    battles = Battles(["x", "y"], kind([0, 1]), kind([1, 0]), kind([1, 0]))
    assert battles.winner_names() == ["x", "x"]


def test_wins_and_ties_are_counted_for_each_pair():
    wins, ties = count_battles(Battles("xyz", [0, 1, 2, 2, 0, 1], [1, 0, 0, 1, 2, 2], [1, 1, 0.5, 0, 0.5, 1]))
    assert wins.tolist() == [[0, 1, 0], [1, 0, 2], [0, 0, 0]]
    assert ties.tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]


def test_some_battles_are_taken():
    battles = Battles("xyz", [0, 1, 2], [1, 2, 0], [1, 0.5, 0], [4, 5, 6])
    assert battles.take([2, 2]).voter.tolist() == [6, 6]
    assert battles.take(np.array([True, False, True])).first.tolist() == [0, 2]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("xx", [0], [1], [1]), "different names"),
        (("xy", [0], [2], [1]), "from 0 to 1"),
        (("xy", [-1], [1], [1]), "from 0 to 1"),
        (("xy", [0, 1], [1, 1], [1, 1]), "battle 1 has 'y' twice"),
        (("xy", [0], [1], [2]), "1, 0 or 0.5"),
        (("xy", [0, 0], [1], [1]), r"lengths \[1, 2\]"),
    ],
)
def test_what_is_no_battle_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Battles(*arguments)


@pytest.mark.parametrize(
    "row, message",
    [
        ({"model_a": "x", "model_b": "y"}, "row 2 has no column 'winner'"),
        ({"model_a": "x", "model_b": "y", "winner": "left"}, "row 2: winner='left' must be one of a, b, tie, both_bad"),
        ({"model_a": "x", "model_b": "w", "winner": "a"}, "models has not w"),
    ],
)
def test_rows_that_cannot_be_read_are_named(row, message):
    with pytest.raises(ValueError, match=message):
        battles_from_rows([{"model_a": "x", "model_b": "y", "winner": "a"}, row], models=["x", "y"])
