"""The votes, in a database: SQLite in a file, or PostgreSQL by its URL."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sql
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from llm_anatomy.arena.battles import WINNERS, Battle
from llm_anatomy.files import first_line

FORMAT = "1"
N_CONNECTIONS = 40
"""As many as there are threads in which the web application works."""

_TABLES = sql.MetaData()
_VOTES = sql.Table(
    "arena_votes",
    _TABLES,
    sql.Column("voter", sql.String(64), primary_key=True),
    sql.Column("battle", sql.Integer, primary_key=True, autoincrement=False),  # one vote on each battle, for ever
    sql.Column("model_a", sql.String(100), nullable=False),
    sql.Column("model_b", sql.String(100), nullable=False),
    sql.Column("winner", sql.String(8), sql.CheckConstraint(f"winner IN {tuple(WINNERS)}"), nullable=False),
    sql.Column("time", sql.String(24), nullable=False),
    sql.Column("length_a", sql.Integer, nullable=False),
    sql.Column("length_b", sql.Integer, nullable=False),
    sql.Column("prompt", sql.Text, nullable=False),
)
_SETTINGS = sql.Table(
    "arena_settings",
    _TABLES,
    sql.Column("name", sql.String(20), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)


class Vote(NamedTuple):
    """What a voter said about a battle.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> battle = Battle("Once", "small", "large", "upon a time", "there was a hare")
    >>> Vote.on(battle, "b", voter="v1", number=0)[:5]
    ('v1', 0, 'small', 'large', 'b')
    """

    voter: str
    battle: int
    model_a: str
    model_b: str
    winner: str
    time: str
    length_a: int
    length_b: int
    prompt: str

    @classmethod
    def on(cls, battle: Battle, winner: str, *, voter: str, number: int) -> "Vote":
        """A vote of this moment.

        Args:
            battle: what the voter has seen.
            winner: ``a``, ``b``, ``tie`` or ``both_bad``.
            voter: who votes.
            number: of the battle among those of the voter, counted from 0.

        Raises:
            ValueError: for another winner.
        """
        if winner not in WINNERS:
            raise ValueError(f"{winner=!r:.40} must be one of {', '.join(WINNERS)}")
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lengths = len(battle.output_a), len(battle.output_b)
        return cls(voter, number, battle.model_a, battle.model_b, winner, time, *lengths, battle.prompt)


class Votes:
    """The votes of an arena. A vote that was recorded is on the disk, and a battle has one vote at most.

    Args:
        database: the path of a file with an SQLite database, which is made if there is none, or a URL such as
            ``postgresql://user@host/name``.

    Raises:
        ValueError: if the database cannot be opened, is of another kind, or belongs to another version.

    Source: the documentation of SQLite, "Write-Ahead Logging"; IITD-01.

    >>> import tempfile
    >>> from pathlib import Path
    >>> battle = Battle("Once", "small", "large", "upon a time", "there was a hare")
    >>> vote = Vote.on(battle, "b", voter="v1", number=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Votes(Path(folder, "arena.sqlite")) as votes:
    ...         votes.record(vote), votes.record(vote), votes.n_votes(), votes.next_battle("v1")
    (True, False, 1, 1)
    """

    def __init__(self, database: str | os.PathLike[str]):
        self.url = _url(database)
        self._insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[self.url.get_backend_name()]
        with _in_one_sentence(self.url):
            if self.url.get_backend_name() == "sqlite":
                os.close(os.open(self.url.database or "", os.O_RDWR | os.O_CREAT, 0o600))  # it will hold the secret
            self._engine = sql.create_engine(self.url, pool_size=N_CONNECTIONS, pool_pre_ping=True)
            if self.url.get_backend_name() == "sqlite":
                event.listen(self._engine, "connect", _prepare_sqlite)
            with self._engine.begin() as connection:
                if self.url.get_backend_name() == "postgresql":  # two servers that start at once
                    connection.execute(sql.text("SELECT pg_advisory_xact_lock(7305)"))
                _TABLES.create_all(connection)
            found = self._setting("format", FORMAT)
        if found != FORMAT:
            self.close()
            raise ValueError(f"{self.url} holds votes in format {found}; this version reads format {FORMAT}")
        self.secret = bytes.fromhex(self._setting("secret", secrets.token_hex(32)))
        """The key that signs what voters show, made with the database."""

    def __enter__(self) -> "Votes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def record(self, vote: Vote) -> bool:
        """Record a vote, unless there is one on this battle already; returns whether it is new.

        Args:
            vote: what the voter said.
        """
        return bool(self.record_all([vote]))

    def record_all(self, votes: Iterable[Vote]) -> int:
        """Record votes in one transaction, all of them or none, and return how many of them are new.

        Args:
            votes: what voters said.
        """
        statement = self._insert(_VOTES).on_conflict_do_nothing().returning(_VOTES.c.battle)
        with self._engine.begin() as connection:
            return sum(len(connection.execute(statement, vote._asdict()).all()) for vote in votes)

    def next_battle(self, voter: str) -> int:
        """Number of the first battle on which this voter has not voted.

        Args:
            voter: who votes.
        """
        last = self._scalar(sql.select(sql.func.max(_VOTES.c.battle)).where(_VOTES.c.voter == voter))
        return 0 if last is None else last + 1

    def vote(self, voter: str, number: int) -> Vote | None:
        """The vote of a voter on the battle with this number, if there is one.

        Args:
            voter: who voted.
            number: of the battle among those of the voter.
        """
        wanted = (_VOTES.c.voter == voter) & (_VOTES.c.battle == number)
        return next(self._select(sql.select(_VOTES).where(wanted)), None)

    def __iter__(self) -> Iterator[Vote]:
        """All votes, in the order of time."""
        return self._select(sql.select(_VOTES).order_by(_VOTES.c.time, _VOTES.c.voter, _VOTES.c.battle))

    def n_votes(self) -> int:
        """Number of votes."""
        return self._scalar(sql.select(sql.func.count()).select_from(_VOTES)) or 0

    def n_voters(self) -> int:
        """Number of voters who have voted."""
        return self._scalar(sql.select(sql.func.count(_VOTES.c.voter.distinct()))) or 0

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How often each outcome occurred: ``(model_a, model_b, winner)`` and the number of votes."""
        outcome = (_VOTES.c.model_a, _VOTES.c.model_b, _VOTES.c.winner)
        with self._engine.connect() as connection:
            rows = connection.execute(sql.select(*outcome, sql.func.count()).group_by(*outcome))
            return {(a, b, winner): n for a, b, winner, n in rows}

    def _select(self, statement: sql.Select) -> Iterator[Vote]:
        with self._engine.connect() as connection:
            for row in connection.execution_options(yield_per=1000).execute(statement):
                yield Vote(*row)

    def _scalar(self, statement: sql.Select) -> int | None:
        with self._engine.connect() as connection:
            return connection.execute(statement).scalar()

    def _setting(self, name: str, value: str) -> str:
        """The setting with this name, which is given this value if there is none."""
        insert = self._insert(_SETTINGS).values(name=name, value=value).on_conflict_do_nothing()
        with self._engine.begin() as connection:
            connection.execute(insert)
            return connection.execute(sql.select(_SETTINGS.c.value).where(_SETTINGS.c.name == name)).scalar_one()


def _url(database: str | os.PathLike[str]) -> sql.URL:
    if "://" not in str(database):
        return sql.URL.create("sqlite", database=os.fspath(database))
    try:
        url = sql.make_url(str(database))
    except ArgumentError:
        raise ValueError("database must be the path of a file, or a URL such as postgresql://user@host/name") from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql") or not url.database:
        raise ValueError(f"database={url} must be an SQLite file or a PostgreSQL database")
    return url


def _prepare_sqlite(connection, _record) -> None:
    """Readers do not wait for a writer, writers wait for one another, and what is committed is on the disk."""
    for setting in ("busy_timeout = 30000", "journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {setting}")


@contextmanager
def _in_one_sentence(url: sql.URL) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ValueError("PostgreSQL needs the package psycopg; run pip install 'psycopg[binary]'") from None
    except (SQLAlchemyError, OSError) as error:
        reason = first_line(getattr(error, "orig", None) or error)
        raise ValueError(f"the database {url} cannot be opened: {reason}") from None
