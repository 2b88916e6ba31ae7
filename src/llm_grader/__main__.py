"""The commands of the grader: ``python -m llm_grader --help``."""

import argparse
import contextlib
import ctypes
import json
import shlex
import subprocess
import sys
from pathlib import Path

from groundwork import Refusal

M_MMAP_THRESHOLD = -3  # of malloc.h


def build(args: argparse.Namespace) -> None:
    from llm_grader import key

    print(*key.build(args.exercises, args.out), sep="\n")


def grade(args: argparse.Namespace) -> None:
    from llm_grader import classrun, key, records, sandbox, submissions

    assignment = key.load(args.exercises)
    folder, out = args.submissions.resolve(), args.out.resolve()
    if folder == out or out in folder.parents or folder in out.parents:
        raise Refusal(
            f"--out {args.out} and {args.submissions} lie one in the other; the marks need a folder of their own."
        )
    if args.workers is not None and args.workers < 1:
        raise Refusal(f"--workers is {args.workers}; it must be at least 1.")
    if not 1 <= args.seconds <= 3600:
        raise Refusal(f"--seconds is {args.seconds:g}; it must be from 1 to 3600.")
    submissions.find(folder, assignment.name)  # refuses where there is nothing to grade
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    private = [folder, out, *_folders([Path(args.exercises)])]
    confined, findings = sandbox.choose(private, args.sandbox, args.unsafe_no_sandbox)
    print(f"Sandbox: {confined.name}, {sum(f.held for f in findings)} of {len(findings)} attacks held.")
    command = shlex.join(["python", "-m", "llm_grader", *sys.argv[1:]])
    found = classrun.grade(
        folder,
        assignment,
        out,
        confined,
        findings,
        args.workers,
        args.seconds,
        command,
        say=lambda text: print(text, flush=True),
    )
    for status in (records.GRADED, records.ATTENTION, records.NOT_GRADED):
        print(f"{sum(record.status == status for record in found)} {status}")
    print(f"Marks: {args.out / 'marks.csv'}\nSummary: {(out / 'summary.html').as_uri()}")


def gradescope(args: argparse.Namespace) -> None:
    from llm_grader import gradescope

    print(gradescope.write(args.exercises, args.out, args.torch_index))


def rehearse(args: argparse.Namespace) -> None:
    from llm_grader import gradescope

    print(json.dumps(gradescope.rehearse(args.archive, args.notebook, args.set_up), indent=1))


def autograde(args: argparse.Namespace) -> None:
    from llm_grader import gradescope

    gradescope.autograde(args.root)


def probe(args: argparse.Namespace) -> None:
    from llm_grader import sandbox

    for path in args.private:
        if not path.exists():
            raise Refusal(f"{path}: there is no such file or folder.")
    chosen, findings = sandbox.choose(_folders(args.private), args.sandbox)
    print(*findings, sep="\n")
    print(f"Chosen: {chosen.name}")


def _folders(paths: list[Path]) -> list[Path]:
    """What has to stay unseen for these to: folders themselves, and those in which files lie."""
    return [path if path.is_dir() else path.resolve().parent for path in paths if path.exists()]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m llm_grader",
        description="Mark notebooks of exercises. The book's page “For instructors” explains.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(action, says: str, **more) -> argparse.ArgumentParser:
        made = commands.add_parser(action.__name__, help=says, description=says, **more)
        made.set_defaults(action=action)
        return made

    what = "a chapter of the book, a folder of masters, or a key file"
    sandboxes = ("bubblewrap", "sandlock", "lowered")
    one = command(build, "write the student notebook and the private key of an assignment")
    one.add_argument("exercises", metavar="EXERCISES", help="a chapter of the book, or a folder of masters")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets the folders student and private")
    one = command(grade, "grade a folder of submissions; run again, it does what is missing")
    one.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="a folder or a notebook for each student")
    one.add_argument("--exercises", required=True, metavar="EXERCISES", help=what)
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets marks.csv, summary.html, feedback")
    one.add_argument("--workers", type=int, metavar="N", help="submissions at once; by default one a processor")
    one.add_argument("--seconds", type=float, default=10.0, metavar="S", help="for one submission (default: 10)")
    one.add_argument("--sandbox", choices=sandboxes, help="this one or none; by default the first that holds")
    one.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="where no sandbox holds, run students' code with your own rights: it can then read the key and your files",
    )
    one = command(gradescope, "write the zip that Gradescope takes")
    one.add_argument("exercises", metavar="EXERCISES", help=what)
    one.add_argument("-o", "--out", type=Path, required=True, metavar="ZIP")
    one.add_argument("--torch-index", metavar="URL", help="package index with PyTorch's build for processors")
    one = command(rehearse, "run such a zip on a notebook, in folders laid out as Gradescope's")
    one.add_argument("archive", type=Path, metavar="ZIP")
    one.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    one.add_argument("--set-up", action="store_true", help="also run its setup.sh, which installs packages")
    one = command(autograde, "what the zip calls on Gradescope")
    one.add_argument("root", type=Path, metavar="DIR")
    one = command(probe, "try attacks on the sandboxes of this machine")
    one.add_argument("private", nargs="*", type=Path, metavar="PATH", help="what must not be readable")
    one.add_argument("--sandbox", choices=sandboxes, help="only this one")
    return top


def _give_memory_back() -> None:
    """Without this, glibc keeps what large replies have taken, and the grader grows by half."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    _give_memory_back()
    try:
        args.action(args)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except OSError as error:  # no space, no permission
        print(f"{error.filename or 'The grader'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"{shlex.join(map(str, error.cmd))} failed with code {error.returncode}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
