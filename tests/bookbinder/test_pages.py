"""The site: built whole or not at all, and served from this machine."""

import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import nbformat
import pytest

from bookbinder import ROOT, pages
from bookbinder.__main__ import main
from groundwork import Refusal

TEXT = """\
# A page

$$
a
$$ (first)

See {eq}`first`, {cite}`one2001` and {glue:text}`half`.

```{code-cell}
1
```
"""


@pytest.fixture
def page(whole_book):
    glue = "application/papermill.record/"
    output = nbformat.v4.new_output("display_data", {f"{glue}text/plain": "'1.50'"})
    output.metadata = {"scrapbook": {"name": "half", "mime_prefix": glue}}
    figure = nbformat.v4.new_output("display_data", {"image/png": PIXEL, "text/plain": 'A "line".'})
    made = whole_book.page(TEXT)
    whole_book.store(made, [output, figure])
    return made


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def test_a_book_is_built_whole_or_not_at_all(whole_book, page):
    out = pages.html(whole_book.root)
    assert out == whole_book.root.resolve() / "_build/html"
    built = (out / "book/small/page.html").read_text()
    article = built[built.index("<article") : built.index("</article>")]
    assert 'alt="A &quot;line&quot;."' in article
    assert "(1)" in article and "1.50" in article and "One, 2001" in article and "find_spec" not in article
    assert "colab/github/" not in built and "/blob/main/book/small/page.ipynb" in built
    assert 'href="../../_static/css/palette.css' in built and (out / "_static/css/palette.css").exists()
    assert 'id="one2001"' in (out / "book/index.html").read_text()
    assert "_static/mathjax/tex-chtml.js" in built and not (out / "_static/mathjax/tex-svg.js").exists()
    assert (out / ".nojekyll").exists()
    assert {path.name for path in out.parent.iterdir()} == {"html", "kept"}

    (out / "mark").touch()
    whole_book.write("book/index.md", "# A small book\n\nSee {ref}`nothing`.\n\n```{bibliography}\n:all:\n```\n")
    with pytest.raises(Refusal) as refusal:
        pages.html(whole_book.root)
    warning, last = str(refusal.value).splitlines()
    assert warning.startswith("book/index.md:3: WARNING: undefined label: 'nothing'")
    assert last == "The book is not built: see the lines above."
    assert (out / "mark").exists() and (out / "book/small/page.html").read_text() == built
    assert {path.name for path in out.parent.iterdir()} == {"html", "kept"}


@pytest.fixture
def build(monkeypatch):
    """In place of the build: writes a page, and ends as told."""

    def told(code=0, stderr=""):
        lines = (
            "import pathlib, sys",
            "built = pathlib.Path(sys.argv[sys.argv.index('--path-output') + 1], '_build/html')",
            "built.mkdir(parents=True)",
            "(built / 'index.html').write_text('new')",
            f"sys.stderr.write({stderr!r})",
            f"sys.exit({code})",
        )
        monkeypatch.setattr(pages, "problems", lambda *_, **__: [])
        monkeypatch.setattr(pages, "BUILD", "\n".join(lines))

    return told


def test_a_full_disk_is_one_sentence(book, build):
    build(2, "OSError: [Errno 28] No space left on device: 'x'\n")
    with pytest.raises(Refusal, match="^The book is not built: no space is left on the disk.$"):
        pages.html(book.root)
    assert [path.name for path in (book.root / "_build").iterdir()] == ["kept"]
    assert list((book.root / "_build/kept").iterdir()) == []


def test_the_old_pages_return_when_the_new_ones_cannot_take_their_place(book, build, monkeypatch):
    build()
    old = book.write("_build/html/index.html", "old")
    book.write("_build/html/searchindex.js", "")
    replace = os.replace

    def fail(source, target):
        if (Path(source) / "index.html").read_text() == "new":
            raise OSError(13, "Permission denied", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Refusal, match="^The book is not built: .*Permission denied"):
        pages.html(book.root)
    assert old.read_text() == "old"
    monkeypatch.setattr(os, "replace", replace)
    pages.html(book.root)
    assert old.read_text() == "new"
    assert {path.name for path in (book.root / "_build").iterdir()} == {"html", "kept"}


def test_a_notebook_older_than_its_text_is_refused(whole_book, page, monkeypatch):
    slow = "import pathlib, time; time.sleep(5); pathlib.Path('built').touch()"
    monkeypatch.setattr(pages, "BUILD", slow)
    whole_book.page(TEXT.replace("\n1\n", "\n2\n"))
    with pytest.raises(Refusal) as refusal:
        pages.html(whole_book.root)
    problem, last = str(refusal.value).splitlines()
    assert problem.startswith("book/small/page.ipynb: cell 2 is not that of book/small/page.nb.md:16; run ")
    assert last == "The book is not built: the problem above."
    assert not (whole_book.root / "built").exists()  # the build, which had begun, was given up
    assert not (whole_book.root / "_build/html").exists()


def test_a_folder_that_is_no_book_is_not_replaced(whole_book):
    home = whole_book.write("home/letter.txt", "Dear").parent
    with pytest.raises(Refusal, match="home holds something other than a built book"):
        pages.html(whole_book.root, home)
    assert (home / "letter.txt").exists()


def test_the_pages_are_served_on_this_machine_only(book):
    with pytest.raises(Refusal, match="^There are no pages yet: `make book` builds them.$"):
        pages.serve(book.root)
    book.write("_build/html/searchindex.js", "")
    book.write("_build/html/index.html", "Good day")
    with pages.serve(book.root, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.server_address
        assert host == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html") as answer:
            assert answer.read() == b"Good day"
        server.shutdown()


def test_a_port_in_use_is_one_sentence(book):
    book.write("_build/html/searchindex.js", "")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Refusal, match=f"^Port {port} is in use: `make serve PORT={port + 1}` takes the next one.$"):
            pages.serve(book.root, port)
    with pytest.raises(Refusal, match="^Port 70000 cannot be used"):
        pages.serve(book.root, 70000)


def test_a_refusal_is_printed_and_is_an_error(capsys):
    assert main(["address", "nowhere"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("The address 'nowhere' cannot be used") and err.count("\n") == 1


def test_a_book_is_checked_without_torch(whole_book, page):
    code = (
        "import sys\nfor name in ('torch', 'numpy', 'matplotlib', 'nbclient', 'ipykernel'): sys.modules[name] = None\n"
        "from pathlib import Path\nfrom bookbinder import pages, sphinx_ext\nprint(pages.problems(Path(sys.argv[1])))"
    )
    done = subprocess.run([sys.executable, "-c", code, whole_book.root], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "[]\n", done.stdout + done.stderr
