"""Names and phrases that were replaced by the field's words do not come back.

``retired_names.csv`` lists them as regular expressions. An *identifier* is a whole name in code or a key of a
configuration; a *part* is one of the words that an identifier joins with underscores; a *phrase* is searched in prose,
that is, in docstrings, comments, messages and pages. ``below`` narrows a row to a folder or a file.
"""

import ast
import csv
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = list(csv.DictReader((ROOT / "tests/retired_names.csv").read_text(encoding="utf-8").splitlines()))
CODE = ("src", "tests", "benchmarks", "exercises")
PROSE = ("src", "book", "exercises", "benchmarks")
GENERATED = "src/llm_anatomy/notebook/exercises"
# English, and not the retired sense: "in place of", "takes its place", "three decimal places", the places of a story.
ENGLISH = re.compile(
    r"\b(?:[Ii]n|into|out of) (?:its |their |the )?place\b|decimal places?|(?:the one|depends on its) place\b|"
    r"\b(?:ta(?:ke|kes|king|ken)|took|changed?|changes|chang(?:e|ing)|swap(?:s|ped)?|keeps?|has no) "
    r"(?:the |its |their |a |an |no )?places?\b|"
    r"[Ii]n (?:one|many|two|three|all|other|eight|several|more than \w+) places?\b|"
    r"places? for the eye|the first place"
)
HAVE_PLACES = (
    "stories.py",
    "story_grammar.py",
    "story_parser.py",
    "translation.py",
    "transformer.nb.md",
)  # hills, and a lecture's map


def files(folders, *endings):
    found = (path for folder in folders for ending in endings for path in sorted((ROOT / folder).rglob(f"*{ending}")))
    return [path for path in found if GENERATED not in path.as_posix() and "_build" not in path.parts]


def identifiers(path):
    """Every name in the code of a module, each with its line."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                found.append((name, line))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append((name, line))
            case ast.keyword(arg=str(name)):
                found.append((name, node.value.lineno))
            case ast.alias(name=name):
                found += [(word, line) for word in name.split(".")]
            case ast.Constant(value=str(name)) if name.isidentifier() and "_" in name:  # a key of a configuration
                found.append((name, line))
    return found


def prose(path):
    """The sentences of a file, each with its line: all of a page; docstrings, comments and messages of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(enumerate(text.splitlines(), 1))
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_sentence = token.type == tokenize.STRING and " " in token.string
        if token.type == tokenize.COMMENT or is_sentence:
            found += [(token.start[0] + i, line) for i, line in enumerate(token.string.splitlines())]
    return found


def concerns(row, path):
    if "place" in row["retired"] and path.name in HAVE_PLACES:
        return False
    return path.relative_to(ROOT).as_posix().startswith(row["below"])


@cache
def pieces(kind, path):
    """What a row of this kind is searched in, each piece with its line and the words around it."""
    if kind == "phrase":
        return [(ENGLISH.sub("", sentence), line, sentence.strip()) for line, sentence in prose(path)]
    names = [(n, line) for n, line in identifiers(path) if not re.search("^test_|in_(its_)?place", n)]
    return [(part, line, n) for n, line in names for part in (n.split("_") if kind == "part" else [n])]


def occur(rows, path):
    """The rows whose words a file holds somewhere: only such a file is parsed, since parsing takes long."""
    text = path.read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    words |= {part for word in words for part in word.split("_")}
    for row in rows:
        if row["kind"] == "phrase":
            found = re.search(row["retired"], text)
        elif row["retired"].isidentifier():
            found = row["retired"] in words
        else:
            found = any(re.fullmatch(row["retired"], word) for word in words)
        if found:
            yield row


def retired(rows, path):
    """Each line of a file in which one of these rows is found, with what to write instead."""
    for row in occur([row for row in rows if concerns(row, path)], path):
        matches = re.compile(row["retired"])
        matches = matches.search if row["kind"] == "phrase" else matches.fullmatch
        for piece, line, words in pieces(row["kind"], path):
            if matches(piece):
                yield f"{path.relative_to(ROOT)}:{line}: {words} (write {row['instead']})"


def test_retired_names_do_not_come_back():
    phrases, names = [], []
    for row in ROWS:
        (phrases if row["kind"] == "phrase" else names).append(row)
    found = [line for path in files(PROSE, ".py", ".md") for line in retired(phrases, path)]
    found += [line for path in files(CODE, ".py") for line in retired(names, path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "words", "text", "found"),
    [
        ("identifier", "n_new", "f(n_new=3)", True),
        ("identifier", "n_new", "'n_new'", True),
        ("identifier", "n_new", "n_newer = 1", False),
        ("part", "place", "key_place = 1", True),
        ("part", "place", "placement = x.in_place", False),
        ("phrase", r"\bplaces?\b", "# the place of a key", True),
        ("phrase", r"\bplaces?\b", "# in place of a key", False),
        ("phrase", r"\bplaces?\b", "raise ValueError('no such place here')", True),
    ],
)
def test_what_counts_as_a_return(tmp_path, monkeypatch, kind, words, text, found):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "module.py").write_text(text + "\n", encoding="utf-8")
    row = {"kind": kind, "retired": words, "instead": "another", "below": ""}
    assert bool(list(retired([row], tmp_path / "module.py"))) == found
