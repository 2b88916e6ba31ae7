"""The command line of bookbinder; ``python -m bookbinder --help`` lists its commands."""

import argparse
import gc
import sys
from pathlib import Path

from bookbinder import ROOT
from groundwork import Refusal


def notebooks_(args) -> None:
    from bookbinder import exercises, notebooks

    if args.verify:
        return _report([line for page in notebooks.pages(ROOT, args.paths) for line in notebooks.differences(page)])
    for path in exercises.generate(check=False):
        print(path)
    made = []
    for page in notebooks.pages(ROOT, args.paths):
        done = notebooks.make(page, args.force)
        print(f"{page.docname}.ipynb: {done or 'up to date'}", flush=True)
        made.append(page)
    _report([line for page in made for line in notebooks.problems(page)])


def check(args) -> None:
    from bookbinder import pages

    _report(pages.problems(ROOT, args.paths))


def html(args) -> None:
    from bookbinder import pages

    index = pages.html(ROOT, args.out) / "index.html"
    print(f"The book: {index}\n{index.as_uri()}")


def serve(args) -> None:
    from bookbinder import pages

    with pages.serve(ROOT, args.port) as server:
        print(f"The book is at http://127.0.0.1:{server.server_port}/ until you press Ctrl-C.", flush=True)
        server.serve_forever()


def address(args) -> None:
    from bookbinder import address, notebooks

    if not args.url:
        return print(address.read().url)
    for path in notebooks.move(args.url):
        print(path.relative_to(ROOT))


def exercises(args) -> None:
    from bookbinder import exercises

    found = exercises.generate(check=args.check)
    if args.check:
        _report(found)
    print(*found, sep="\n", end="\n" if found else "")


def _report(problems: list[str]) -> None:
    if problems:
        raise Refusal("\n".join(problems))


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bookbinder", description="Build the book, and check it.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(action, name: str, summary: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        made.set_defaults(action=action)
        return made

    paths = {"nargs": "*", "type": Path, "metavar": "PATH", "help": "texts, notebooks or folders (default: all)"}
    one = command(
        notebooks_, "notebooks", "run the notebooks whose code has changed, and update the words of the others"
    )
    one.add_argument("paths", **paths)
    how = one.add_mutually_exclusive_group()
    how.add_argument("--force", action="store_true", help="run them even if their code has not changed")
    how.add_argument("--verify", action="store_true", help="run them and compare their outputs; write nothing")
    one = command(check, "check", "list everything that keeps the book from being built, one problem on each line")
    one.add_argument("paths", **paths)
    one = command(html, "html", "build the pages of the site")
    one.add_argument("--out", type=Path, metavar="DIR", help="the folder for the pages (default: _build/html)")
    one = command(serve, "serve", "serve the built pages on this machine")
    one.add_argument("--port", type=int, default=8000, metavar="N", help="the port (default: 8000)")
    one = command(address, "address", "print the address of the repository, or change it everywhere in the book")
    one.add_argument("url", nargs="?", metavar="URL", help="the new one: https://github.com/ORGANISATION/REPOSITORY")
    one = command(exercises, "exercises", "make the students' texts and the public checks from the masters")
    one.add_argument("--check", action="store_true", help="write nothing; list the files that are not up to date")
    return top


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        args.action(args)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except OSError as error:  # no space, no permission
        print(f"{error.filename or 'The book'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    gc.disable()  # looking for garbage, of which there is little, would take half of the time of a check
    sys.exit(main())
