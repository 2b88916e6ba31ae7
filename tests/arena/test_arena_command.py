"""The command: votes go out as CSV and come back, and what cannot be done is one sentence."""

import builtins
import csv
import math
import re
import shlex
import socket
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="pip install 'llm_anatomy[arena]'")
from llm_anatomy.__main__ import main, parser
from llm_anatomy.arena.command import _addresses
from llm_anatomy.arena.outputs import Outputs
from llm_anatomy.arena.votes import Vote, Votes
from llm_anatomy.evaluation.arena.battles import read_battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry

VOTES = [
    Vote(f"voter{i % 7}", i // 7, "small", "large", winner, f"2026-11-23T20:00:{i:02d}.000Z", 10, 20, 'a "b",\n=c')
    for i, winner in enumerate(["a", "b", "b", "tie", "both_bad", "b", "b"] * 3)
]


def run(capsys, *words):
    code = main(["arena", *map(str, words)])
    return code, *capsys.readouterr()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Votes("arena.sqlite") as votes:
        votes.record_all(VOTES)
    return tmp_path


@pytest.mark.syllabus("IITD-01", "GT-50")
def test_exported_votes_are_battles_for_the_chapter_and_come_back(capsys, folder):
    assert run(capsys, "export", "--out", "votes.csv")[:2] == (0, "21 votes are in votes.csv.\n")
    battles = read_battles("votes.csv")
    assert len(battles) == 21 and len(battles.voter.unique()) == 7
    lead, low, high = bradley_terry(battles).difference("large", "small")
    assert lead == pytest.approx(400 * math.log10(15 / 6), abs=1e-6) and low < lead < high
    with open("votes.csv", newline="", encoding="utf-8") as lines:
        assert [row["winner"] for row in csv.DictReader(lines)] == [vote.winner for vote in VOTES]
    words = ["import", "votes.csv", "--database", "other.sqlite"]
    assert run(capsys, *words)[1] == "21 votes were added, 0 were there already.\n"
    assert run(capsys, *words)[1] == "0 votes were added, 21 were there already.\n"
    with Votes("other.sqlite") as votes:
        assert sorted(votes) == sorted(VOTES)
    assert run(capsys, "export", "--database", "other.sqlite")[1] == (folder / "votes.csv").read_text("utf-8")


def test_votes_of_two_files_without_voters_are_different_votes(capsys, folder):
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text("model_a,model_b,winner\nsmall,large,a\nsmall,large,b\n")
        assert run(capsys, "import", f"{name}.csv", "--database", "b.sqlite")[1].startswith("2 votes were added, 0")


def test_the_board_is_printed(capsys, folder):
    code, out, _ = run(capsys, "board")
    lines = out.splitlines()
    assert code == 0 and lines[0] == "21 votes of 7 voters" and lines[1].split()[:3] == ["rank", "model", "rating"]
    assert [line.split()[:2] for line in lines[2:]] == [["1", "large"], ["2", "small"]] and max(map(len, lines)) < 80


HEAD = "model_a,model_b,winner,voter,battle\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model_a,winner\nx,a\n", "votes.csv has no column 'model_b'"),
        (HEAD + "x,y,a,v,0\nx,y,c,v,1\n", "votes.csv, line 3: winner='c' must be one of a, b, tie, both_bad"),
        (HEAD + "x,y,a,v,one\n", "votes.csv, line 2: battle='one' must be a whole number"),
        (HEAD + "x,y,a,v,-1\n", "votes.csv, line 2: battle='-1' must be a whole number"),
        (HEAD + "x,y,a,v,1234567890\n", "line 2: battle='1234567890' must be a whole number from 0 to 999,999,999"),
        (HEAD + f"{'x' * 101},y,a,v,0\n", "line 2: model_a has 101 characters; at most 100 are allowed"),
        (HEAD + "x,x,a,v,0\n", "line 2: model_a and model_b must be two models"),
        (HEAD + "x\n", "votes.csv has no column 'model_b'"),
    ],
)
def test_a_wrong_line_adds_nothing(capsys, folder, text, sentence):
    (folder / "votes.csv").write_text(text)
    code, out, err = run(capsys, "import", "votes.csv")
    assert code == 2 and not out and sentence in err and len(err.splitlines()) == 1
    with Votes("arena.sqlite") as votes:
        assert votes.n_votes() == 21


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "--database", "none"], "there is no database none"),
        (["board", "--database", "none"], "there is no database none"),
        (["import", "none.csv"], "No such file or directory: 'none.csv'"),
        (["serve", "--outputs", "none.jsonl"], "No such file or directory: 'none.jsonl'"),
        (["serve", "--models", "story_rope"], "models=story_rope must be at least two"),
        (["outputs", "--max-new-tokens", "0"], "max_new_tokens=0 must be at least 1"),
        (
            ["serve", "--outputs", "two.jsonl", "--port", "{busy}"],
            "the arena cannot listen at 127.0.0.1:{busy}: Address already",
        ),
        (["serve", "--outputs", "two.jsonl", "--port", "99999"], "the arena cannot listen at 127.0.0.1:99999: "),
        (
            ["serve", "--outputs", "two.jsonl", "--host", "no.such.host.invalid"],
            "cannot listen at no.such.host.invalid",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(capsys, folder, words, sentence):
    (folder / "two.jsonl").write_text("".join(Outputs({"p": {"x": "1", "y": "2"}}).lines()))
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        code, _, err = run(capsys, *(word.replace("{busy}", port) for word in words))
    assert code == 2 and sentence.replace("{busy}", port) in err and len(err.splitlines()) == 1


def test_without_the_extra_it_says_what_to_install(capsys, folder, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **more):
        if name == "starlette":
            raise ImportError("No module named 'starlette'", name="starlette")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    code, _, err = run(capsys, "export")
    assert code == 2 and "the arena needs starlette" in err and "pip install 'llm_anatomy[arena]'" in err


def test_outputs_are_made_once_and_then_read(folder, monkeypatch):
    from argparse import Namespace

    from llm_anatomy.arena import command

    made = Outputs({"p": {"x": "1", "y": "2"}})
    asked = []
    monkeypatch.setattr(command, "write_outputs", lambda *models: asked.append(models) or made)
    nothing = Namespace(outputs=None, models=None)
    assert command._outputs(nothing) == command._outputs(nothing) == made and asked == [()]
    assert Outputs.read("arena.jsonl") == made
    assert command._outputs(Namespace(outputs=None, models=["x", "y"])) == made and asked[1:] == [(["x", "y"],)]


def test_the_addresses_are_what_voters_can_type():
    assert _addresses("127.0.0.1", 80) == ["http://127.0.0.1:80"] and _addresses("::1", 80) == ["http://[::1]:80"]
    assert _addresses("0.0.0.0", 80)[-1] == "http://127.0.0.1:80"  # behind the address in the network, if there is one


def test_what_the_pages_tell_to_type_is_understood():
    root = Path(__file__).parents[2]
    told = []
    for page in ("README.md", "book/arena.md"):
        told += re.findall(r"python -m llm_anatomy (arena .*)", (root / page).read_text("utf-8"))
    assert len(told) >= 5
    for line in told:
        assert callable(parser(shlex.split(line)).parse_args(shlex.split(line)).action)


def test_the_code_of_the_page_runs(capsys, folder):
    run(capsys, "export", "--out", "votes.csv")
    page = (Path(__file__).parents[2] / "book/arena.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(code, {})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["1", "large"], ["2", "small"]]
