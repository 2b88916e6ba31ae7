"""The menu *Run these cells* at the head of a notebook's page: in Colab, or in the page itself.

The script that runs them in the page, ``book/_static/js/live_cells.js``, is fetched when a reader asks for it. It is a
client of ours, not Thebe: Thebe 0.9 is on npm alone, brings 1.5 MB of script of which the book needs the exchange of
messages with a kernel, and cannot offer the command that starts the server.
"""

from pathlib import Path

from sphinx.application import Sphinx

from bookbinder import address

SCRIPT = "_static/js/live_cells.js"
LABEL = "Run these cells"


def add_to_menu(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Name the theme's launch menu for what it does, and add the page itself to it."""
    for menu in context.get("header_buttons", ()):
        if menu.get("label") == "launch-buttons":
            package = address.read(Path(app.srcdir)).archive
            script = context["pathto"](SCRIPT, 1)
            menu["tooltip"] = LABEL
            menu["buttons"].append(
                {
                    "type": "javascript",
                    "text": "In this page",
                    "tooltip": "Run them here, on a Jupyter server on your own machine",
                    "icon": "fas fa-play",
                    "label": "live-cells",
                    "javascript": "const script = document.createElement('script'); "
                    f"script.dataset.package = '{package}'; script.src = '{script}'; document.head.append(script)",
                }
            )


def connect(app: Sphinx) -> None:
    app.connect("html-page-context", add_to_menu, priority=600)  # after the theme has made its buttons
