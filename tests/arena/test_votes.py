"""A vote that was recorded is there once, whoever else writes at the same time; SQLite and PostgreSQL do the same."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="no SQLAlchemy: pip install 'llm_anatomy[arena]'")
from llm_anatomy.arena.battles import Battle
from llm_anatomy.arena.votes import Vote, Votes

BATTLE = Battle("prompt", "x", "y", "12345", "678")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The URL of a PostgreSQL server that listens at a socket in a folder and at no port."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install 'psycopg[binary]'")
    program = shutil.which("postgres") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)
    if program is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    home = Path(program).resolve().parent
    folder = tmp_path_factory.mktemp("pg")
    as_user = []
    if os.getuid() == 0:  # it does not run as root
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv: apt-get install util-linux")
        os.chmod(folder, 0o777)
        for parent in folder.parents[:3]:
            os.chmod(parent, 0o755)
        as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    data = folder / "data"
    environment = os.environ | {"LC_ALL": "C.UTF-8", "HOME": str(folder)}
    make = [*as_user, home / "initdb", "-D", data, "-U", "arena", "-A", "trust", "-E", "UTF8", "--no-sync"]
    made = subprocess.run(make, capture_output=True, text=True, env=environment, cwd=folder)
    if made.returncode:
        pytest.skip(f"PostgreSQL does not start here: {made.stderr.strip().splitlines()[-1:]}")
    serve = [*as_user, home / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder) as server:
        for line in server.stderr:
            if "ready to accept connections" in line:
                break
        yield f"postgresql://arena@/postgres?host={folder}"
        server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients that are still connected
        try:
            server.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "a.sqlite")
    url = request.getfixturevalue("postgres")
    name = f"test_{abs(hash(request.node.name))}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.replace("/postgres?", f"/{name}?")


def vote(winner="a", voter="v", number=0, battle=BATTLE):
    return Vote.on(battle, winner, voter=voter, number=number)


def test_the_first_vote_on_a_battle_counts(database):
    with Votes(database) as votes:
        first = vote("tie")
        assert votes.record(first) and not votes.record(vote("a")) and not votes.record(first)
        assert list(votes) == [first] and votes.vote("v", 0) == first and votes.vote("v", 1) is None
        assert votes.record(vote("b", number=1)) and votes.record(vote("both_bad", voter="w"))
        assert votes.vote("v", 0) == first and votes.vote("w", 0).winner == "both_bad"
        assert (votes.next_battle("v"), votes.next_battle("w"), votes.next_battle("u")) == (2, 1, 0)
        assert (votes.n_votes(), votes.n_voters()) == (3, 2)
        assert votes.counts() == {("x", "y", "tie"): 1, ("x", "y", "b"): 1, ("x", "y", "both_bad"): 1}
        assert (first.length_a, first.length_b, first.prompt) == (5, 3, "prompt") and first.time.endswith("Z")


def test_votes_come_in_the_order_of_time(database):
    times = ("2026-01-02T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "2026-01-03T00:00:00.000Z")
    with Votes(database) as votes:
        votes.record_all(vote(number=n)._replace(time=time) for n, time in enumerate(times))
        assert [found.battle for found in votes] == [1, 0, 2]


def test_texts_are_data(database):
    name = "x'); DROP TABLE arena_votes; --"
    with Votes(database) as votes:
        assert votes.record(vote(voter=name, battle=BATTLE._replace(prompt=f"{name}é😀", model_a='"; --')))
        assert votes.vote(name, 0).prompt == f"{name}é😀" and votes.counts() == {('"; --', "y", "a"): 1}


def test_many_at_once_write_each_vote_once(database):
    n_threads, n_votes = 12, 20
    new = []

    def work(i):
        for number in range(n_votes):  # three threads share a voter
            new.append(votes.record(vote("ab"[i % 2], voter=f"v{i % 4}", number=number)))

    with Votes(database) as votes:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(new) == n_threads * n_votes and sum(new) == votes.n_votes() == 4 * n_votes


def test_several_are_recorded_together_or_not_at_all(database):
    with Votes(database) as votes:
        assert votes.record_all([vote(number=n) for n in (0, 1, 1)]) == 2
        wrong = vote(number=3)._replace(winner="c")
        with pytest.raises(Exception, match="(?i)check"):
            votes.record_all([vote(number=2), wrong])
        assert votes.n_votes() == 2


def test_a_secret_outlives_the_server_and_differs_between_arenas(database, tmp_path):
    with Votes(database) as votes, Votes(database) as again, Votes(tmp_path / "other.sqlite") as other:
        assert votes.secret == again.secret != other.secret and len(votes.secret) == 32


def test_another_format_is_refused(database):
    with Votes(database) as votes, votes._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE arena_settings SET value = '7' WHERE name = 'format'")
    with pytest.raises(ValueError, match="holds votes in format 7; this version reads format 1"):
        Votes(database)


def test_a_file_is_for_its_owner_and_writes_ahead(tmp_path):
    with Votes(tmp_path / "a.sqlite") as votes:
        assert stat.S_IMODE((tmp_path / "a.sqlite").stat().st_mode) == 0o600
        with votes._engine.connect() as connection:
            asked = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
            }
        assert asked == {"journal_mode": "wal", "synchronous": 2}


def test_who_writes_waits_for_another_program(tmp_path):
    with Votes(tmp_path / "a.sqlite") as votes:
        other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        assert votes.n_votes() == 0  # readers do not wait
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        assert votes.record(vote())
        timer.join()
        other.close()


@pytest.mark.parametrize(
    ("database", "sentence"),
    [
        ("{here}/no/such/folder/a.sqlite", "cannot be opened: .*No such file"),
        ("{here}", "cannot be opened: .*Is a directory"),
        ("{here}/text", "cannot be opened: file is not a database$"),
        ("mysql://localhost/a", "must be an SQLite file or a PostgreSQL database"),
        ("://", "must be the path of a file, or a URL"),
        ("sqlite://", "must be an SQLite file"),
        (
            "postgresql://arena:hidden@127.0.0.1:1/a?connect_timeout=2",
            r"database postgresql\+psycopg://arena:\*\*\*@.* cannot be opened",
        ),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(tmp_path, database, sentence):
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(ValueError, match=sentence) as error:
        Votes(database.format(here=tmp_path))
    assert "\n" not in str(error.value) and "hidden" not in str(error.value)


def test_a_winner_is_one_of_four():
    with pytest.raises(ValueError, match="winner='c' must be one of a, b, tie, both_bad"):
        vote("c")
