"""The API reference: pages made of the package's signatures and docstrings.

The package is read, not imported, so that the pages need no PyTorch. What has a docstring and no leading underscore is
public. Each module has a page, which is reStructuredText, as docstrings are. The lectures' items in a docstring lead to
the sections that treat them, and a module to the chapters of those sections.
"""

import ast
import logging
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from textwrap import indent

import griffe
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config as DocstringStyle
from sphinx.ext.napoleon import GoogleDocstring

from bookbinder import kept
from bookbinder.syllabus import ITEM, Entry, Syllabus, file_link
from groundwork import Refusal, write_whole

PACKAGE = "llm_anatomy"
OVERVIEW = "book/api_reference"  # written by hand, save for the list of modules
NAMES = "<!-- names -->"  # in the overview, where the names stand that the package itself offers
MODULES = "<!-- modules -->"  # in the overview, where the list stands
FOLDER = "book/api"  # of the pages of modules, which are made anew in each build
DEEPEST = 3  # a module further down than this many folders shares the page of the package above it
LONGEST_VALUE = 60  # characters of a constant's value that is shown
SOURCE = re.compile(r"^Source:\s+(\S.*(?:\n.*\S.*)*)", re.MULTILINE)
GOOGLE = DocstringStyle(napoleon_use_param=False, napoleon_use_rtype=False)  # else "query, key: …" is a type and a name

logging.getLogger("griffe").setLevel(logging.ERROR)  # it would like a type for each argument


class _ShapesAreNotCode(griffe.Extension):
    """Leave strings in annotations as they are: ``"batch *tokens"`` is a shape and not a product."""

    def on_module_node(self, *, node, **_) -> None:
        node.body[1:1] = ast.parse("from __future__ import annotations").body


class Reference:
    """What is public in the package under ``root``, and the pages that describe it; nothing if there is no package."""

    def __init__(self, root: Path):
        self.root = root

    @cached_property
    def objects(self) -> dict[str, griffe.Object]:
        """Everything public, by its full name, in the order in which it is written."""
        if not (self.root / "src" / PACKAGE / "__init__.py").exists():
            return {}
        extensions = griffe.load_extensions(_ShapesAreNotCode)
        package = griffe.load(PACKAGE, search_paths=[self.root / "src"], allow_inspection=False, extensions=extensions)
        return {found.path: found for found in _public(package)}

    @cached_property
    def pages(self) -> dict[str, list[griffe.Module]]:
        """The modules that each page describes, by the name that the page has in the table of contents."""
        found = {}
        for module in sorted((o for o in self.objects.values() if o.is_module), key=lambda module: module.path):
            found.setdefault(_page_of(module), []).append(module)
        return found

    @cached_property
    def _locations(self) -> dict[str, list[str]]:
        """Page and anchor of everything public."""

        def located() -> dict[str, list[str]]:
            return {
                name: [_page_of(found.module), f"module-{name}" if found.is_module else name]
                for name, found in self.objects.items()
            }

        return kept.once(self.root, "locations", self.code, located)

    @cached_property
    def code(self) -> str:
        """A digest of all that is described here, and of what describes it."""
        package = kept.contents(self.root, f"src/{PACKAGE}", suffix=".py")
        return kept.digest(package, Path(__file__).read_bytes())

    def locate(self, name: str) -> tuple[str, str]:
        """Page and anchor of a module, class, function, method or constant, or a Refusal."""
        if name not in self._locations:
            raise Refusal(f"{name!r} is not in the API reference; what is public and has a docstring can be named")
        page, anchor = self._locations[name]
        return page, anchor

    def source(self, name: str, syllabus: Syllabus) -> str | None:
        """The address under which the source code of something public can be read."""
        found = self.objects.get(name)
        return file_link(syllabus, found.filepath.relative_to(self.root).as_posix(), found.lineno) if found else None

    def chapters(self, docname: str, syllabus: Syllabus) -> list[str]:
        """The pages of the chapters that treat the items which a page of the reference names."""
        here = (o.docstring.value for o in self.objects.values() if o.module in self.pages[docname])
        sections = {_section(item, syllabus) for text in here for item in ITEM.findall(text)} - {None}
        paths = {section.path for section in sections}
        return [chapter.docname for _, chapter in sorted(syllabus.chapters.items()) if chapter.path in paths]

    # Writing

    def overview(self, introduction: str) -> str:
        """The page above the others, with its list of modules filled in."""
        package, groups = None, {}
        for module in self._first_modules:
            if module.path == PACKAGE:
                package = module
            else:
                groups.setdefault(_short(module).partition(".")[0], []).append(module)
        alone = [module for group in groups.values() for module in group if len(group) == 1]
        lines = ["```{eval-rst}", f".. py:module:: {PACKAGE}", "", *_listed(alone), "```", ""]
        for name, group in groups.items():
            if len(group) > 1:
                lines += [f"## {name}", "", "```{eval-rst}", *_listed(group), "```", ""]
        introduction = introduction.replace(NAMES, ", ".join(self._offered(package)) if package else "")
        return introduction.replace(MODULES, "\n".join(lines) if package else "")

    def _offered(self, package: griffe.Module) -> Iterator[str]:
        """Links to what ``from package import name`` gives, by the package's table of names and their modules."""
        if "_HOMES" in package.members:
            for name, module in sorted(ast.literal_eval(str(package.members["_HOMES"].value)).items()):
                above = f"{PACKAGE}.{module}."
                path = next(path for path in self.objects if path.startswith(above) and path.endswith(f".{name}"))
                yield f"{{py:obj}}`{name} <{path}>`"

    def page(self, docname: str, syllabus: Syllabus) -> str:
        """A page: its first module, the modules that have a page below it, and those that share the page."""
        first, *others = self.pages[docname]
        title = _short(first)
        lines = [] if first.parent.path == PACKAGE else [":orphan:", ""]  # the table of contents has the first floor
        lines += [title, "=" * len(title), "", *self._module(first, docname, syllabus)]
        for module in others:
            lines += [module.name, "-" * len(module.name), "", *self._module(module, docname, syllabus)]
        return "\n".join(lines)

    @property
    def _first_modules(self) -> Iterator[griffe.Module]:
        return (first for first, *_ in self.pages.values())

    def _module(self, module: griffe.Module, docname: str, syllabus: Syllabus) -> list[str]:
        lines = [f".. py:module:: {module.path}", "", *_docstring(module, docname, syllabus)]
        if module is self.pages[docname][0]:
            if chapters := [f":doc:`/{chapter}`" for chapter in self.chapters(docname, syllabus)]:
                lines.append(f":Chapter{'s' * (len(chapters) > 1)}: {', '.join(chapters)}")
            lines += [f":Part of: :py:mod:`{_short(module.parent)} <{module.parent.path}>`", ""]
            lines += _listed(below for below in self._first_modules if below.parent is module)
        return lines + self._members(module, docname, syllabus)

    def _members(self, parent: griffe.Module | griffe.Class, docname: str, syllabus: Syllabus) -> list[str]:
        """A directive of Sphinx's domain for Python for each member, with what belongs to it inside."""
        lines = []
        for member in parent.members.values():
            if member.path in self.objects and not member.is_module:
                kind, heading, options = self._heading(member)
                inside = [*(f":{name}: {value}" for name, value in options.items()), ""]
                if member.is_class:
                    inside += self._bases(member)
                inside += _docstring(member, docname, syllabus)
                if member.is_class:
                    inside += self._members(member, docname, syllabus)
                lines += [f".. py:{kind}:: {heading}", *indent("\n".join(inside), "   ").split("\n"), ""]
        return lines

    def _heading(self, described: griffe.Object) -> tuple[str, str, dict[str, str]]:
        """Name of the directive, name of what it describes with its parameters, options."""
        in_class = described.parent.is_class
        if described.is_class:
            constructor = _constructor(described)
            return "class", self._signature(constructor, described.name) if constructor else described.name, {}
        if described.is_function:
            marks = ("abstractmethod", "classmethod", "staticmethod")
            options = {mark: "" for mark in marks if mark in described.labels}
            return "method" if in_class else "function", self._signature(described, described.name), options
        options = {"type": self._type(described.annotation)} if described.annotation else {}
        if "property" in described.labels:
            return "property", described.name, options
        value = str(described.value or "")
        if value and len(value) <= LONGEST_VALUE and "\n" not in value:
            options["value"] = value
        return "attribute" if in_class else "data", described.name, options

    def _signature(self, function: griffe.Function, name: str) -> str:
        for parameter in function.parameters:
            parameter.annotation = self._type(parameter.annotation)
        function.returns = self._type(function.returns)
        return function.signature(name=name, return_type=function.name != "__init__")

    def _type(self, written: griffe.Expr | str | None) -> str | None:
        """A type as it is written, but ``Float[Tensor, "batch tokens"]`` without its Tensor, which goes without saying,
        and a class of the reference with the full name that makes it a link; of that, Sphinx shows the end."""
        if isinstance(written, griffe.ExprSubscript) and isinstance(written.slice, griffe.ExprTuple):
            first, *others = written.slice.elements
            if str(first) == "Tensor" and len(others) == 1:
                return f"{written.left}[{others[0]}]"
        if isinstance(written, griffe.ExprName):
            found = self.objects.get(written.canonical_path)
            return f"~{found.path}" if found and found.is_class else written.name
        if isinstance(written, griffe.Expr):
            return "".join(self._type(part) for part in written.iterate(flat=False))
        return written

    def _bases(self, described: griffe.Class) -> list[str]:
        paths = [base.canonical_path for base in described.bases if isinstance(base, griffe.Expr)]
        linked = [f":py:class:`~{path}`" for path in paths if path in self.objects]
        return [f":Extends: {', '.join(linked)}", ""] if linked else []


def _public(found: griffe.Object) -> Iterator[griffe.Object]:
    yield found
    for member in found.members.values() if found.is_module or found.is_class else ():
        if not member.is_alias and not member.name.startswith("_") and member.has_docstring:
            yield from _public(member)


def _page_of(module: griffe.Module) -> str:
    names = module.path.split(".")[1 : DEEPEST + 1]
    return "/".join([FOLDER, *names]) if names else OVERVIEW


def _short(module: griffe.Module) -> str:
    return module.path.removeprefix(f"{PACKAGE}.")


def _listed(modules: Iterable[griffe.Module]) -> list[str]:
    """Links to modules, each with the first paragraph of its docstring."""
    summaries = {module: " ".join(module.docstring.value.split("\n\n")[0].split()) for module in modules}
    return [
        line for m, summary in summaries.items() for line in (f":py:mod:`{_short(m)} <{m.path}>`", f"   {summary}", "")
    ]


def _constructor(described: griffe.Class) -> griffe.Function | None:
    """What takes the arguments of a class: its ``__init__``, an inherited one, or one for a named tuple's fields."""
    if any(str(base) == "NamedTuple" for base in described.bases):
        kind = griffe.ParameterKind.positional_or_keyword
        fields = (field for field in described.attributes.values() if field.annotation)
        taken = (griffe.Parameter(f.name, annotation=f.annotation, default=f.value, kind=kind) for f in fields)
        return griffe.Function("__init__", parameters=griffe.Parameters(*taken), parent=described)
    init = described.all_members.get("__init__")
    return init.final_target if init and init.is_alias else init


def _section(item: str, syllabus: Syllabus) -> Entry | None:
    """The first section that treats an item, of the item's own chapter if there is one."""
    own = syllabus.chapters.get(int(syllabus.items[item]["chapter"])) if item in syllabus.items else None
    found = syllabus.found(item, "section")
    return next((entry for entry in found if own and entry.path == own.path), found[0] if found else None)


def _docstring(described: griffe.Object, docname: str, syllabus: Syllabus) -> list[str]:
    """The docstring as Sphinx reads it, with the source as a field and the items in it as links to their sections."""

    def linked(item: re.Match) -> str:
        section = _section(item[0], syllabus)
        link = section and posixpath.relpath(section.link, posixpath.dirname(docname))
        return f"`{item[0]} <{link}>`__" if link else item[0]

    def field(source: re.Match) -> str:
        return f":Source: {ITEM.sub(linked, ' '.join(source[1].split()))}"

    text = SOURCE.sub(field, described.docstring.value)
    return [*GoogleDocstring(text, GOOGLE).lines(), ""]


# Building


def connect(app: Sphinx, collect: Callable[[Path], Syllabus]) -> None:
    """Make the pages when Sphinx begins, and fill in the overview.

    Args:
        app: Sphinx, as it is set up.
        collect: gives what treats the lectures' items.
    """
    reference = Reference(Path(app.srcdir))

    @cache
    def made() -> dict[str, str]:
        """The texts of the pages; each needs to be written again only if the package or the chapters have changed."""
        syllabus = collect(reference.root)

        def write() -> dict[str, str]:
            return {docname: reference.page(docname, syllabus) for docname in reference.pages if docname != OVERVIEW}

        key = kept.digest(reference.code, syllabus.chapters, syllabus.entries["section"])
        return kept.once(reference.root, "reference", key, write)

    def source(domain: str, info: dict[str, str]) -> str | None:
        return reference.source(f"{info['module']}.{info['fullname']}", collect(reference.root))

    def configure(app: Sphinx, config: Config) -> None:
        config.linkcode_resolve = source
        # The pages of an earlier build lie there already and would count as forgotten in the table of contents.
        config.exclude_patterns = [name for name in config.exclude_patterns if not name.startswith(f"{FOLDER}/")]

    def write_pages(app: Sphinx) -> None:
        texts = {reference.root / f"{docname}.rst": text for docname, text in made().items()}
        for path in set((reference.root / FOLDER).rglob("*.rst")) - set(texts):  # of a module that is gone
            path.unlink(missing_ok=True)
        for path, text in texts.items():
            content = text.encode("utf-8")
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)

    def fill_overview(app: Sphinx, docname: str, source: list[str]) -> None:
        if docname == OVERVIEW:
            source[0] = reference.overview(source[0])

    def order_pages(app: Sphinx, env: BuildEnvironment) -> None:
        """Each page follows its package's for *previous*, *next* and the way up, though the sidebar is spared them."""
        for docname in made():
            if (above := posixpath.dirname(docname)) in made():
                below = env.toctree_includes.setdefault(above, [])
                below += [docname] * (docname not in below)

    def leave_plain(app: Sphinx, env, node: addnodes.pending_xref, contnode: nodes.Element) -> nodes.Element | None:
        """A type in a signature that is not the package's, of PyTorch for instance, is no link."""
        inside = node.parent
        while inside and not isinstance(inside, addnodes.desc_signature):
            inside = inside.parent
        return contnode if inside and not node["reftarget"].startswith(f"{PACKAGE}.") else None

    app.setup_extension("sphinx.ext.linkcode")
    app.connect("config-inited", configure, priority=950)  # after the table of contents is read
    app.connect("builder-inited", write_pages)
    app.connect("source-read", fill_overview)
    app.connect("env-updated", order_pages)
    app.connect("missing-reference", leave_plain)
