"""Command line of the grader: ``python -m llm_grader --help``."""

import argparse
import contextlib
import ctypes
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from groundwork import Refusal

M_MMAP_THRESHOLD = -3  # from malloc.h


def build(args: argparse.Namespace) -> None:
    """Run the command build."""
    from llm_grader import building, key, records

    def check(assignment: records.Key, folder: Path) -> None:
        building.check_folder(args.out, assignment)
        for sentence in building.check_questions(assignment, folder):
            print(sentence)

    paths = key.build(args.exercises, args.out, args.install_from, check)
    if warning := building.address_warning(paths[0]):
        print(warning, file=sys.stderr)
    print(*paths, sep="\n")


def import_(args: argparse.Namespace) -> None:
    """Run the command import."""
    from llm_grader.importers import import_assignment

    print(import_assignment(args.tool, args.folder, args.out))
    print(f"Next: read {args.out}, and run `python -m llm_grader build {args.out} --out DIR`.")


def grade(args: argparse.Namespace) -> None:
    """Run the command grade."""
    from llm_grader import building, classrun, key, sandbox, shares, students, submissions
    from llm_grader.journal import Journal

    share = shares.parse(args.task) if args.task else None
    assignment = key.load(args.exercises)
    folder, out = args.submissions.resolve(), args.out.resolve()
    if folder == out or out in folder.parents or folder in out.parents:
        raise Refusal(
            f"--out {args.out} and the submissions {args.submissions} overlap; choose a separate folder for the marks."
        )
    if args.workers is not None and args.workers < 1:
        raise Refusal(f"--workers is {args.workers}; it must be at least 1.")
    if not 1 <= args.seconds <= 3600:
        raise Refusal(f"--seconds is {args.seconds:g}; it must be from 1 to 3600.")
    # raises an error if there is nothing to grade, or if the list does not fit the submissions
    students.identify(submissions.find(folder, assignment.name), args.students)
    building.check_folder(out, assignment)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_folder, seed = shares.prepare(out, share) if share else (out, shares.shared_seed(out))
    private = [folder, out, *_private_folders([Path(args.exercises), *([args.students] if args.students else [])])]
    chosen, findings = sandbox.choose(private, args.sandbox, args.unsafe_no_sandbox)
    print(f"Sandbox: {chosen.name}, {sum(f.blocked for f in findings)} of {len(findings)} attacks blocked.")
    command = shlex.join(sys.orig_argv)
    with Journal(run_folder / "journal.sqlite", classrun.grader_version(), seed) as journal:
        if n_marks := journal.give_more_time(args.seconds):
            print(f"Marks that were short of time in an earlier run, and are made again: {n_marks}.")
    graded = classrun.grade(
        folder,
        assignment,
        run_folder,
        chosen,
        findings,
        args.workers,
        args.seconds,
        command,
        share,
        seed,
        log=lambda text: print(text, flush=True),
        student_list=args.students,
        regrade=args.regrade,
    )
    _print_result(graded, run_folder)


def collect(args: argparse.Namespace) -> None:
    """Run the command collect."""
    from llm_grader import collecting, key

    command = shlex.join(sys.orig_argv)
    out = args.out.resolve()
    folder = args.submissions.resolve()
    collected, incomplete = collecting.collect(folder, key.load(args.exercises), out, command, args.students)
    _print_result(collected, out)
    if incomplete:
        raise Refusal("\n".join(incomplete))


def _print_result(graded: list, out: Path) -> None:
    from llm_grader import records

    for status in (records.GRADED, records.NEEDS_ATTENTION, records.NOT_GRADED):
        print(f"{sum(record.status == status for record in graded)} {status}")
    print(f"Marks: {out / 'marks.csv'}\nSummary: {(out / 'summary.html').as_uri()}")


def gradescope(args: argparse.Namespace) -> None:
    """Run the command gradescope."""
    from llm_grader import gradescope

    seed = gradescope.read_seed(args.seed) if args.seed is not None else ""
    minutes = gradescope.MINUTES if args.minutes is None else args.minutes
    if not 1 <= minutes <= gradescope.MAX_MINUTES:
        raise Refusal(f"--minutes is {minutes:g}; it must be from 1 to {gradescope.MAX_MINUTES:g}.")
    print(gradescope.write_zip(args.exercises, args.out, args.torch_index, seed, minutes))


def rehearse(args: argparse.Namespace) -> None:
    """Run the command rehearse."""
    from llm_grader import gradescope

    print(json.dumps(gradescope.rehearse(args.archive, args.notebook, args.set_up), indent=1))


def autograde(args: argparse.Namespace) -> None:
    """Run the command autograde."""
    from llm_grader import gradescope

    if not gradescope.autograde(args.root):
        raise Refusal("There is no results.json, so that no score is recorded.")


def probe(args: argparse.Namespace) -> None:
    """Run the command probe."""
    from llm_grader import sandbox

    for path in args.private:
        if not path.exists():
            raise Refusal(f"There is no file or folder {path}.")
    chosen, findings = sandbox.choose(_private_folders(args.private), args.sandbox)
    print(*findings, sep="\n")
    print(f"Chosen sandbox: {chosen.name}")


def ready(args: argparse.Namespace) -> None:
    """Run the command ready."""
    from llm_grader import readiness

    print(readiness.prove(print))


def _private_folders(paths: list[Path]) -> list[Path]:
    """Return the folders that must stay private: the given ones, and the parent folders of the given files."""
    return [path if path.is_dir() else path.resolve().parent for path in paths if path.exists()]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m llm_grader",
        description="Grade notebooks of exercises. The book's page “For instructors” explains how.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(action: Callable[[argparse.Namespace], None], description: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            action.__name__.rstrip("_"), help=description, description=f"{description[0].upper()}{description[1:]}."
        )
        subparser.set_defaults(action=action)
        return subparser

    key_help = "name of a chapter of the book, a folder of questions, or a key file"
    students_help = "list of students with the columns folder and id, and perhaps name and login"
    sandboxes = ("bubblewrap", "sandlock", "setuid")
    subparser = command(build, "write the student notebook and the private key of an assignment")
    subparser.add_argument(
        "exercises", metavar="EXERCISES", help="name of a chapter of the book, or a folder of questions"
    )
    subparser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder in which the folders student and private are written",
    )
    subparser.add_argument(
        "--install-from",
        metavar="SOURCE",
        help="what the notebook's first cell installs: a git address, a wheel or a package (default: the book)",
    )
    subparser = command(
        import_,
        "make questions from an assignment of nbgrader or Otter-Grader; this runs its solutions and tests, with your "
        "rights and in this Python, to record how the tests call the functions",
    )
    subparser.add_argument("tool", choices=("nbgrader", "otter"), help="what the assignment was written for")
    subparser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="nbgrader: the source folder of one assignment; Otter: the folder that `otter assign` reads, or the "
        "folder autograder that it writes; or a notebook of these",
    )
    subparser.add_argument(
        "--out", type=Path, required=True, metavar="QUESTIONS", help="new folder for the questions and for imported.md"
    )
    subparser = command(grade, "grade a folder of submissions; run it again to grade what is missing")
    subparser.add_argument(
        "submissions", type=Path, metavar="SUBMISSIONS", help="folder with a folder or a notebook for each student"
    )
    subparser.add_argument("--exercises", required=True, metavar="EXERCISES", help=key_help)
    subparser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the marks, summary.html and feedback"
    )
    subparser.add_argument("--students", type=Path, metavar="CSV", help=students_help)
    subparser.add_argument(
        "--regrade", action="store_true", help="make those marks again that an earlier version of the grader made"
    )
    subparser.add_argument(
        "--workers", type=int, metavar="N", help="submissions graded at once (default: what CPUs and memory allow)"
    )
    subparser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="CPU time for the answers of one submission, in seconds (default: 10)",
    )
    subparser.add_argument(
        "--task", metavar="I/N", help="grade only the I-th of N shares of the class, each on a machine of its own"
    )
    subparser.add_argument(
        "--sandbox", choices=sandboxes, help="the only sandbox to try (default: the first one that works)"
    )
    subparser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="if no sandbox works, run students' code with your own rights: it can then read the key and your files",
    )
    subparser = command(collect, "put the shares of a class together that were graded with --task")
    subparser.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="the same folder of submissions")
    subparser.add_argument("--exercises", required=True, metavar="EXERCISES", help=key_help)
    subparser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the same folder of marks")
    subparser.add_argument("--students", type=Path, metavar="CSV", help=students_help)
    subparser = command(gradescope, "write the autograder zip for Gradescope")
    subparser.add_argument("exercises", metavar="EXERCISES", help=key_help)
    subparser.add_argument("-o", "--out", type=Path, required=True, metavar="ZIP", help="path of the zip")
    subparser.add_argument("--torch-index", metavar="URL", help="package index with the CPU build of PyTorch")
    subparser.add_argument(
        "--seed",
        metavar="SEED",
        help="seed of the hidden inputs: an earlier zip, to keep its inputs, or 64 hexadecimal digits (default: a new "
        "seed)",
    )
    subparser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="time limit that you have set for the assignment on Gradescope, in minutes (default: 10, as there)",
    )
    subparser = command(rehearse, "run an autograder zip on a notebook, in the folder layout of Gradescope")
    subparser.add_argument("archive", type=Path, metavar="ZIP", help="a zip that the command gradescope wrote")
    subparser.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="the notebook to grade")
    subparser.add_argument(
        "--set-up", action="store_true", help="also run setup.sh from the zip, which installs packages"
    )
    subparser = command(autograde, "grade one submission on Gradescope; the zip runs this command")
    subparser.add_argument("root", type=Path, metavar="DIR", help="Gradescope's folder /autograder")
    subparser = command(probe, "attack each kind of sandbox on this machine, and say which one will be used")
    subparser.add_argument(
        "private", nargs="*", type=Path, metavar="PATH", help="file or folder that students' code must not read"
    )
    subparser.add_argument("--sandbox", choices=sandboxes, help="the only sandbox to try")
    command(ready, "prove that this machine can grade: attack its sandbox, and grade a class of three")
    return top


def _return_large_blocks_to_system() -> None:
    """Make glibc free the memory of large replies; otherwise the grader takes up half as much memory again."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # the C library is not glibc
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    args = parser().parse_args(arguments)
    _return_large_blocks_to_system()
    try:
        args.action(args)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except OSError as error:  # such as a full disk or missing permission
        print(f"{error.filename or 'The grader'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"{shlex.join(map(str, error.cmd))} failed with code {error.returncode}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. Run the same command again to continue.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
