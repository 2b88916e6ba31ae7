"""The address of the repository: one line of ``_config.yml``, and everything that follows from it."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from bookbinder import ROOT
from groundwork import Refusal

LINE = re.compile(
    r"^(repository:[^\n]*\n(?:[ \t]+[^\n]*\n|[ \t\r]*\n)*?[ \t]+url:[ \t]*)(['\"]?)([^'\"\s#]+)\2", re.MULTILINE
)

PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.+!]+)?")


@dataclass(frozen=True)
class Address:
    """The address of the repository, and what follows from it.

    Its files can be read under ``blob``, and fetched, as images are, under ``raw``.
    """

    url: str
    branch: str

    @property
    def blob(self) -> str:
        return f"{self.url}/blob/{self.branch}"

    @property
    def raw(self) -> str:
        return f"{self.url}/raw/{self.branch}"

    @property
    def archive(self) -> str:
        """The address of all files in one, from which pip installs the package without git."""
        return f"{self.url}/archive/refs/heads/{self.branch}.zip"

    @property
    def site(self) -> str:
        """The address of the site that is published from the repository."""
        organisation, name = validated(self.url).split("/")[-2:]
        host = f"{organisation.lower()}.github.io"
        return f"https://{host}" if name.lower() == host else f"https://{host}/{name}"


def read(root: Path = ROOT) -> Address:
    """The address in ``_config.yml``."""
    config = root / "_config.yml"
    if not config.exists():
        raise Refusal(f"{config} is missing, so there is no book here.")
    values = (yaml.safe_load(config.read_text(encoding="utf-8")) or {}).get("repository") or {}
    if not isinstance(values.get("url"), str):
        raise Refusal(f"{config} must say where the repository is, under repository: url.")
    return Address(values["url"].rstrip("/"), values.get("branch", "main"))


def validated(url: str) -> str:
    """The address of a repository on GitHub without a trailing slash or ``.git``; any other address is a Refusal."""
    parts = urlsplit(url.strip())
    path = parts.path.strip("/").removesuffix(".git")
    if (parts.scheme, parts.netloc.lower(), parts.query, parts.fragment) != ("https", "github.com", "", "") or not (
        re.fullmatch(r"[\w.-]+/[\w.-]+", path)
    ):
        raise Refusal(
            f"The address {url!r} cannot be used: it must be https://github.com/ORGANISATION/REPOSITORY, "
            "from where Colab opens notebooks."
        )
    return f"https://github.com/{path}"


def first_cell(source: str | None = None, root: Path = ROOT) -> str:
    """The code of every notebook's first cell, which installs the package where it is missing and changes nothing else.

    Args:
        source: From where it is installed, see :func:`requirement`; by default the address of the book.
    """
    source = read(root).url if source is None else source
    return f"""\
import importlib.util, subprocess, sys
if not importlib.util.find_spec("llm_anatomy") and subprocess.run([sys.executable, "-m", "pip", "install", "-q", \
"--no-deps", "{requirement(source)}"], capture_output=True).returncode:
    raise SystemExit("The book's package could not be fetched from {source}: connect to the internet and run this \
cell again.")"""


def requirement(source: str) -> str:
    """What pip is told to install.

    Args:
        source: The address of a git repository, the address or the path of a wheel or an archive, or the name of a
            package, with a version after ``==`` or without.

    Raises:
        Refusal: It is none of these.
    """
    parts = urlsplit(source)
    is_archive = re.search(r"\.(whl|zip|tar\.gz)$", parts.path)
    if re.fullmatch(r"[\w.~@:/%+=#&?, ()-]+", source) and source == source.strip() and not source.startswith("-"):
        if parts.scheme in ("https", "http") and parts.netloc or parts.scheme == "file" and parts.path:
            return source if is_archive else f"git+{source}"
        if parts.scheme in ("git+https", "git+ssh") and parts.netloc:
            return source
        if not parts.scheme and (is_archive or PACKAGE.fullmatch(source)):
            return source
    raise Refusal(
        f"The package cannot be installed from {source!r}: name the https address of a git repository, the address or "
        "the path of a wheel (.whl, .zip or .tar.gz), or a package such as llm_anatomy or llm_anatomy==0.1.0."
    )


def config_with(url: str, root: Path = ROOT) -> tuple[bytes, bytes]:
    """The content of ``_config.yml`` as it is, and with ``url`` for the address of the repository."""
    url = validated(url)
    config = root / "_config.yml"
    read(root)
    before = config.read_bytes()
    after, found = LINE.subn(lambda line: f"{line[1]}{line[2]}{url}{line[2]}", before.decode("utf-8"), count=1)
    if not found:
        raise Refusal(f"{config} must hold the address of the repository in a line of its own, `url: ADDRESS`.")
    return before, after.encode("utf-8")
