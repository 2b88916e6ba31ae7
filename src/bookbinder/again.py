"""A build that goes on from the last one: which pages Sphinx reads and writes again.

Sphinx looks at the times of files, and writes the pages that it has read. Here contents are compared, and all pages are
written where something has changed that pages tell each other, such as a title, which stands in links to it.
"""

from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from bookbinder.kept import digest, plain
from bookbinder.myst import TEXT_SUFFIX

OF_PAGES = ("titles", "longtitles", "tocs", "metadata", "toc_num_entries", "included")
SHARED = ("toctree_includes", "files_to_rebuild", "glob_toctrees", "numbered_toctrees", "nb_metadata")
FROM_OTHERS = {"cite": {"bibdata", "citations"}}  # made of the file of works, and of the other data


def connect(app: Sphinx) -> None:
    read: list[str] = []

    def outdated(app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set) -> list[str]:
        """The pages whose files have another content, whatever their times say."""
        before = getattr(env, "bookbinder_sources", {})
        return [
            docname for docname in env.found_docs & set(env.all_docs) if before.get(docname) != source(env, docname)
        ]

    def note(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
        read[:] = docnames

    def updated(app: Sphinx, env: BuildEnvironment) -> list[str]:
        """All pages, where what they tell each other has changed."""
        env.bookbinder_sources = {docname: source(env, docname) for docname in env.found_docs}
        pages = dict(getattr(env, "bookbinder_pages", {}))
        for docname in read:
            pages[docname] = digest(*told(env, docname))
        shared = digest(*shared_data(env))
        before = getattr(env, "bookbinder_pages", {}), getattr(env, "bookbinder_shared", "")
        env.bookbinder_pages, env.bookbinder_shared = pages, shared
        return [] if before == (pages, shared) else sorted(env.found_docs)

    def drop_images(app: Sphinx, error: Exception | None) -> None:
        """Leave out of the site the images that no page shows any more."""
        used = () if error else {name for _, name in app.env.images.values()}
        for path in () if error else (Path(app.outdir) / "_images").glob("*"):
            if path.name not in used:
                path.unlink()

    app.connect("build-finished", drop_images)
    app.connect("env-get-outdated", outdated)
    app.connect("env-before-read-docs", note)
    app.connect("env-updated", updated, priority=900)


def source(env: BuildEnvironment, docname: str) -> str:
    """A digest of the files that a page is made of."""
    paths = {Path(env.srcdir, name) for name in env.dependencies.get(docname, ())}
    paths |= {Path(env.doc2path(docname)), Path(env.srcdir, docname + TEXT_SUFFIX)}
    return digest(*(part for path in sorted(paths) if path.is_file() for part in (path, path.read_bytes())))


def told(env: BuildEnvironment, docname: str) -> Iterator[str]:
    """What a page tells others of itself, which is not how many words it has."""
    for name in OF_PAGES:
        data = getattr(env, name).get(docname)
        if name == "metadata" and data:
            data = {key: each for key, each in data.items() if key != "wordcount"}
        yield plain(data or None)  # what is empty may be missing


def shared_data(env: BuildEnvironment) -> Iterator[str]:
    for name in SHARED:
        data = getattr(env, name, ())
        yield plain({key: each for key, each in data.items() if each} if isinstance(data, dict) else data)
    for name, data in sorted(env.domaindata.items()):
        mine = {key: each for key, each in data.items() if key not in FROM_OTHERS.get(name, ())}
        # A list has what several pages say in the order in which they were read.
        yield plain({key: set(map(plain, each)) if isinstance(each, list) else each for key, each in mine.items()})
