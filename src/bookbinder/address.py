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


def first_cell(address: str | None = None, root: Path = ROOT) -> str:
    """The code of every notebook's first cell, which installs the package where it is missing and changes nothing else.

    Args:
        address: The address of the repository, or anything else that git can clone; by default the book's own.
    """
    address = address or read(root).url
    return f"""\
import importlib.util, subprocess, sys
if not importlib.util.find_spec("llm_anatomy") and subprocess.run([sys.executable, "-m", "pip", "install", "-q", \
"--no-deps", "git+{address}"], capture_output=True).returncode:
    raise SystemExit("The book's package could not be fetched from {address}: connect to the internet and run this \
cell again.")"""


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
