"""What ``python -m llm_anatomy arena`` does: serve the page, write outputs, export and import votes, show the board."""

import argparse
import csv
import io
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_anatomy.arena.battles import WINNERS
from llm_anatomy.arena.models import MODELS, write_outputs
from llm_anatomy.arena.outputs import Outputs
from llm_anatomy.commands.options import add_command
from llm_anatomy.files import write_atomically

OUTPUTS, DATABASE = Path("arena.jsonl"), "arena.sqlite"
COLUMNS = ("model_a", "model_b", "winner", "voter", "time", "battle", "length_a", "length_b", "prompt")


def serve(args: argparse.Namespace) -> None:
    """Serve an arena until Ctrl-C.

    Args:
        args: ``outputs``, ``models``, ``database``, ``question``, ``host`` and ``port``.

    Raises:
        ValueError: for outputs or a database that cannot be used, and without the packages of the extra ``arena``.
        OSError: if the address is in use.

    Source: IITD-01.

    >>> serve(argparse.Namespace(outputs=Path("no/such/file"), models=None, database="", host="", port=0))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no/such/file'
    """
    outputs = _outputs(args)
    with _votes(args.database) as votes:
        import uvicorn

        from llm_anatomy.arena.app import application

        listening = _listen(args.host, args.port)
        port = listening.getsockname()[1]
        models = outputs.models
        print(f"The arena has {len(outputs.prompts)} prompts and {len(models)} models: {', '.join(models)}.")
        print(f"The votes go to {votes.url.render_as_string()}; there are {votes.n_votes():,}.")
        print(f"Vote at {' or '.join(_addresses(args.host, port))}; Ctrl-C ends it.", flush=True)
        settings = uvicorn.Config(
            application(outputs, votes, args.question),
            log_level="warning",
            server_header=False,
            limit_concurrency=2000,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=5,
        )
        uvicorn.Server(settings).run(sockets=[listening])


def write(args: argparse.Namespace) -> None:
    """Write the outputs of models for the same prompts to a file.

    Args:
        args: ``out``, ``models``, ``prompts``, ``max_new_tokens`` and ``seed``.

    Raises:
        ValueError: as :func:`~llm_anatomy.arena.models.write_outputs` does.

    Source: IITD-01.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     args = argparse.Namespace(prompts=Path(folder, "prompts"), out=Path(folder, "out"), seed=0)
    ...     args.models, args.max_new_tokens = ["story_rope@0", "story_llama@0"], 2
    ...     _ = args.prompts.write_text("Mia was a\\n")
    ...     print("_"), write(args)  # doctest: +ELLIPSIS
    _
    The outputs of 2 models for 1 prompt are in ...out.
    (None, None)
    """
    prompts = None if args.prompts is None else [line for line in args.prompts.read_text("utf-8").splitlines() if line]
    _write_outputs(
        args.out, write_outputs(args.models or MODELS, prompts, max_new_tokens=args.max_new_tokens, seed=args.seed)
    )


def export_votes(args: argparse.Namespace) -> None:
    """Write all votes as CSV.

    Args:
        args: ``database``, and ``out``, the file, or None for the standard output.

    Raises:
        ValueError: if there is no such database.

    Source: IITD-01.

    >>> export_votes(argparse.Namespace(database="no/such/file", out=None))
    Traceback (most recent call last):
    ValueError: there is no database no/such/file
    """
    with _votes(args.database, must_exist=True) as votes:
        rows = [[getattr(vote, name) for name in COLUMNS] for vote in votes]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    if args.out is None:
        sys.stdout.write(text.getvalue())
    else:
        write_atomically(args.out, text.getvalue())
        print(f"{len(rows):,} votes are in {args.out}.")


def import_votes(args: argparse.Namespace) -> None:
    """Add the votes of a CSV file; those that are there already are left alone.

    Args:
        args: ``file`` and ``database``.

    Raises:
        ValueError: if a line is wrong, with its number; then nothing is added.

    Source: IITD-01.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     args = argparse.Namespace(file=Path(folder, "votes.csv"), database=Path(folder, "arena.sqlite"))
    ...     _ = args.file.write_text("model_a,model_b,winner\\nsmall,large,b\\n")
    ...     import_votes(args)
    1 vote was added, 0 were there already.
    """
    found = list(_read_votes(args.file))
    with _votes(args.database) as votes:
        n = votes.record_all(found)
    print(f"{n:,} vote{' was' if n == 1 else 's were'} added, {len(found) - n:,} were there already.")


def print_board(args: argparse.Namespace) -> None:
    """Print the board that follows from the votes.

    Args:
        args: ``database``.

    Raises:
        ValueError: if there is no such database.

    Source: GT-50.

    >>> print_board(argparse.Namespace(database="no/such/file"))
    Traceback (most recent call last):
    ValueError: there is no database no/such/file
    """
    from llm_anatomy.arena.board import board

    with _votes(args.database, must_exist=True) as votes:
        rows = board(votes.counts(), [])
        print(f"{votes.n_votes():,} votes of {votes.n_voters():,} voters")
    width = max([5, *(len(row.model) for row in rows)])
    print(f"rank  {'model':{width}}  rating  95% interval  battles")
    for row in rows:
        known = row.rating is not None
        rating = f"{row.rating:6.0f}  {row.low:4.0f} to {row.high:4.0f}" if known else f"     –  {row.reason}"
        print(f"{row.rank or '–':>4}  {row.model:{width}}  {rating:20}  {row.n_battles:7,}")


def _outputs(args: argparse.Namespace) -> Outputs:
    """The outputs of the file that was named, of the models that were named, or of the usual file, made if need be."""
    if args.models:
        return write_outputs(args.models)
    if args.outputs is None and not OUTPUTS.exists():
        _write_outputs(OUTPUTS, write_outputs())
    return Outputs.read(args.outputs or OUTPUTS)


def _write_outputs(path: Path, outputs: Outputs) -> None:
    write_atomically(path, "".join(outputs.lines()))
    n = len(outputs.prompts)
    print(f"The outputs of {len(outputs.models)} models for {n} prompt{'' if n == 1 else 's'} are in {path}.")


def _votes(database: str | os.PathLike[str], must_exist: bool = False) -> Any:
    if must_exist and "://" not in str(database) and not Path(database).exists():
        raise ValueError(f"there is no database {database}")
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401

        from llm_anatomy.arena.votes import Votes
    except ImportError as error:
        raise ValueError(
            f"the arena needs {error.name}, which is not installed; run pip install 'llm_anatomy[arena]'"
        ) from None
    return Votes(database)


def _read_votes(path: Path) -> Iterator[Any]:
    """The votes of a CSV file. Without voters and numbers of battles, each line is a voter with one battle."""
    from llm_anatomy.arena.votes import Vote

    with path.open(newline="", encoding="utf-8") as lines:
        for number, found in enumerate(csv.DictReader(lines), 2):
            usual = {
                "voter": f"{path.stem[:40]}-{number}",
                "battle": 0,
                "time": "",
                "prompt": "",
                "length_a": 0,
                "length_b": 0,
            }
            row = usual | {name: value for name, value in found.items() if value is not None}
            try:
                yield Vote(**_checked({name: row[name] for name in Vote._fields}))
            except KeyError as error:
                raise ValueError(f"{path.name} has no column {error}") from None
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {error}") from None


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a vote, with numbers where a database has numbers."""
    for name in ("battle", "length_a", "length_b"):
        if not re.fullmatch(r"[0-9]{1,9}", str(row[name])):
            raise ValueError(f"{name}={row[name]!r:.40} must be a whole number from 0 to 999,999,999")
        row[name] = int(row[name])
    for name, most in {"voter": 64, "model_a": 100, "model_b": 100, "time": 24}.items():
        if len(row[name]) > most:
            raise ValueError(f"{name} has {len(row[name])} characters; at most {most} are allowed")
    if row["model_a"] == row["model_b"] or not (row["model_a"] and row["model_b"]):
        raise ValueError("model_a and model_b must be two models")
    if row["winner"] not in WINNERS:
        raise ValueError(f"winner={row['winner']!r:.40} must be one of {', '.join(WINNERS)}")
    return row


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a wrong address is one sentence before anything runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"the arena cannot listen at {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return made


def _addresses(host: str, port: int) -> list[str]:
    """What voters type; for a host that means all, this machine's own address in its network."""
    if host not in ("0.0.0.0", "::"):
        return [f"http://{f'[{host}]' if ':' in host else host}:{port}"]
    found = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; the system chooses the address that it would send from
            found.insert(0, probe.getsockname()[0])
        except OSError:
            pass  # there is no network
    return [f"http://{address}:{port}" for address in dict.fromkeys(found)]


def add_commands(arena: argparse.ArgumentParser) -> None:
    """Add the actions and options of the command ``arena``.

    Args:
        arena: the parser of the command.

    Source: IITD-01.

    >>> arena = argparse.ArgumentParser()
    >>> add_commands(arena)
    >>> arena.parse_args(["board"]).action.__name__
    'print_board'
    """
    arena.epilog = (
        "examples: arena serve; arena serve --host 0.0.0.0 --question 'Which story is better?'; "
        "arena outputs --models story_rope@0.7 ./my-model --out mine.jsonl; arena export --out votes.csv"
    )
    actions = arena.add_subparsers(required=True, metavar="ACTION")

    one = add_command(
        actions,
        "serve",
        "serve the page for voters and the board",
        epilog=f"Without --outputs and --models, {OUTPUTS} is served; if there is none, small models of this package "
        "write it first. If the server stops or is killed, no vote is lost, and the same command goes on. Voters need "
        "no account: a cookie tells them apart, so that a person with two browsers counts twice.",
    )
    what = one.add_mutually_exclusive_group()
    what.add_argument("--outputs", type=Path, metavar="FILE", help="JSONL, each line with prompt, model and output")
    _add_models(what)
    _add_database(one)
    one.add_argument("--question", default="Which text is better?", help="what voters are asked; default: %(default)s")
    one.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for a whole network; default: %(default)s")
    one.add_argument("--port", type=int, default=8200, help="default: %(default)s")
    one.set_defaults(action=serve)

    one = add_command(actions, "outputs", "let models continue the same prompts, for a file that serve takes")
    _add_models(one)
    one.add_argument("--prompts", type=Path, metavar="FILE", help="one on each line; by default beginnings of stories")
    one.add_argument("--max-new-tokens", type=int, default=80, help="of an output; default: %(default)s")
    one.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    one.add_argument("--out", type=Path, default=OUTPUTS, metavar="FILE", help="default: %(default)s")
    one.set_defaults(action=write)

    one = add_command(
        actions,
        "export",
        "write the votes as CSV",
        epilog=f"Columns: {', '.join(COLUMNS)}. The winner is {', '.join(WINNERS)}; lengths are in characters.",
    )
    _add_database(one)
    one.add_argument("--out", type=Path, metavar="FILE", help="by default the standard output")
    one.set_defaults(action=export_votes)

    one = add_command(
        actions,
        "import",
        "add votes from CSV, such as those of another server",
        epilog="It needs the columns model_a, model_b and winner; a vote that is there already is left alone.",
    )
    one.add_argument("file", metavar="FILE", type=Path)
    _add_database(one)
    one.set_defaults(action=import_votes)

    one = add_command(actions, "board", "print the ratings with their intervals and ranks")
    _add_database(one)
    one.set_defaults(action=print_board)


def _add_models(command: Any) -> None:
    command.add_argument(
        "--models",
        nargs="+",
        metavar="MODEL",
        help="a stored model, a folder, a GGUF file or a name on the hub, with @ and a temperature if you like; "
        f"by default {' '.join(MODELS)}",
    )


def _add_database(command: Any) -> None:
    command.add_argument(
        "--database",
        default=DATABASE,
        metavar="FILE_OR_URL",
        help="a file with an SQLite database, or postgresql://user@host/name; default: %(default)s",
    )
