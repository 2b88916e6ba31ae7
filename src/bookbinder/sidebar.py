"""The list of pages beside each page, which is made once for all of them and then marked for each.

Sphinx makes it anew for each page. But it is the same on all of them, except that addresses are relative to the page
and that the way to the page is marked.
"""

import re
from functools import cache

from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import TocTree
from sphinx.util.osutil import relative_uri

NOWHERE = "genindex"  # a page at the top of the site that is not in the list
LINK = '<a class="reference internal" href="'
TAG = re.compile(rf'(</?ul>|<li class="[^"]*">|</li>|{LINK}[^"#]*">)')


def marked(tree: str, uri: str) -> str:
    """The list as the page with this address shows it, made of the one that no page of the list shows."""
    parts, way = TAG.split(tree), []  # in turn text and tag; the positions of the tags that are open
    for at in range(1, len(parts), 2):
        tag = parts[at]
        if tag.startswith("</"):
            way.pop()
        elif not tag.startswith(LINK):
            way.append(at)
        elif (address := tag[len(LINK) : -2]) != uri:
            parts[at] = f'{LINK}{relative_uri(uri, address)}">'
        else:
            parts[at] = '<a class="current reference internal" href="#">'
            for above in way:
                parts[above] = _current(parts[above])
    return "".join(parts)


def _current(tag: str) -> str:
    return '<ul class="current">' if tag == "<ul>" else f'{tag[:-2]} current">'


def connect(app: Sphinx) -> None:
    @cache
    def unmarked(**options) -> str:
        return app.builder.render_partial(TocTree(app.env).get_toctree_for(NOWHERE, app.builder, **options))["fragment"]

    def quicken(app: Sphinx, page: str, template: str, context: dict, doctree) -> None:
        made = context["toctree"]

        def toctree(**options) -> str:
            if options.get("collapse", True) or not options.get("includehidden"):  # it depends on more than the marks
                return made(**options)
            return marked(unmarked(**options), app.builder.get_target_uri(page))

        context["toctree"] = toctree

    app.connect("html-page-context", quicken, priority=400)  # before the theme asks for the list
