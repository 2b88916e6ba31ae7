"""The list of pages, made once and marked for each page."""

import pytest

from bookbinder.sidebar import marked

TREE = """\
<p class="caption"><span class="caption-text">Chapters</span></p>
<ul>
<li class="toctree-l1"><a class="reference internal" href="book/one/one.html">1. One</a><ul>
<li class="toctree-l2"><a class="reference internal" href="book/one/exercises.html">Exercises</a></li>
</ul>
</li>
<li class="toctree-l1"><a class="reference external" href="https://example.org">Elsewhere</a></li>
</ul>
"""


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("search.html", TREE),
        ("book/two.html", TREE.replace("book/", "")),
        (
            "book/one/one.html",
            TREE.replace("book/one/exercises", "exercises")
            .replace("<ul>\n", '<ul class="current">\n', 1)
            .replace('<li class="toctree-l1">', '<li class="toctree-l1 current">', 1)
            .replace('"reference internal" href="book/one/one.html"', '"current reference internal" href="#"'),
        ),
        (
            "book/one/exercises.html",
            TREE.replace("book/one/one", "one")
            .replace("<ul>\n", '<ul class="current">\n')
            .replace('<li class="toctree-l1">', '<li class="toctree-l1 current">', 1)
            .replace('<li class="toctree-l2">', '<li class="toctree-l2 current">')
            .replace('"reference internal" href="book/one/exercises.html"', '"current reference internal" href="#"'),
        ),
    ],
)
def test_addresses_are_relative_to_the_page_and_the_way_to_it_is_marked(page, shown):
    assert marked(TREE, page) == shown
