"""What an assignment provides for students' code: packages besides the grader's own, and data files.

Beside its ``chapter.yml``, a folder of questions may hold the file ``requirements.txt``, which names a package in each
line as pip reads it, and the folder ``data``. Both become part of the key, so they reach every machine that grades.
"""

import base64
import hashlib
import inspect
import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from groundwork import Refusal

MAX_DATA_BYTES = 16 * 2**20  # the key holds them, and each worker reads them
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOR_STUDENTS = "# and what students' code may import."
NOT_FOR_STUDENTS = {"ipython", "ipywidgets"}  # what notebooks run in
NAMES = {"torch": "PyTorch", "numpy": "NumPy", "matplotlib": "Matplotlib"}


def read_requirements(folder: Path) -> list[str]:
    """Return the requirements that a folder of questions names, without comments.

    Raises:
        Refusal: a line is not a requirement; options of pip, such as ``-r``, are none.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    path = folder / "requirements.txt"
    found = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines() if path.is_file() else []
    except UnicodeDecodeError as e:
        raise Refusal(f"{folder.name}/requirements.txt is not text in UTF-8; save it as UTF-8.") from e
    for number, line in enumerate(lines, 1):
        if line := re.sub(r"(^|\s)#.*", "", line).strip():
            try:
                Requirement(line)
            except InvalidRequirement as e:
                raise Refusal(
                    f"{folder.name}/requirements.txt: line {number} is {line!r}; each line must name one package, "
                    "such as scipy or pandas>=2."
                ) from e
            found.append(line)
    return found


def read_data(folder: Path) -> dict[str, bytes]:
    """Return the data files of a folder of questions: path in its folder ``data`` → content. Hidden files are left out.

    Raises:
        Refusal: they are too large together, or one of them is a link.
    """
    data = folder / "data"
    if not data.is_dir() or (data / "exercise.md").exists():  # a question may have this name
        return {}
    paths = {path: path.relative_to(data) for path in sorted(data.rglob("*"))}
    paths = {path: name for path, name in paths.items() if not any(part.startswith(".") for part in name.parts)}
    if links := [name for path, name in paths.items() if path.is_symlink()]:
        raise Refusal(f"{folder.name}/data/{links[0]} is a link; put the file itself there.")
    files = {path: name for path, name in paths.items() if path.is_file()}
    if (size := sum(path.stat().st_size for path in files)) > MAX_DATA_BYTES:
        raise Refusal(
            f"{folder.name}/data holds {size / 2**20:.1f} MiB; the data files of an assignment may have "
            f"{MAX_DATA_BYTES // 2**20} MiB together."
        )
    return {name.as_posix(): path.read_bytes() for path, name in files.items()}


def to_key(requirements: list[str], data: dict[str, bytes]) -> dict[str, Any]:
    """Return the fields of a key file for them, which has no such field where there is nothing to provide."""
    encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
    return {name: value for name, value in (("requirements", requirements), ("data", encoded)) if value}


def from_key(content: dict[str, Any]) -> tuple[list[str], dict[str, bytes]]:
    """Return the requirements and the data files of a key file.

    Raises:
        ValueError, TypeError, AttributeError: the fields are malformed.
    """
    data = {name: base64.b64decode(text, validate=True) for name, text in content.get("data", {}).items()}
    for name in data:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(name)
    return [str(line) for line in content.get("requirements", [])], data


def version(question_version: str, requirements: list[str], data: dict[str, bytes]) -> str:
    """Return the version of a question of an assignment that provides these, which can change every mark."""
    if not requirements and not data:
        return question_version
    about = [question_version, requirements, {name: hashlib.sha256(value).hexdigest() for name, value in data.items()}]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def base_packages() -> list[str]:
    """Return the packages that every student's code may import, as people write their names."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").partition(FOR_STUDENTS)[2].split()
    packages = ["numpy", *(line.partition(">")[0] for line in lines)]
    return [NAMES.get(name, name) for name in packages if name not in NOT_FOR_STUDENTS]


def statement(requirements: list[str], data: dict[str, bytes]) -> str:
    """Return what a student notebook says about what its code may import and read, in Markdown."""
    sentences = [f"Your code may import Python's standard library, `llm_anatomy`, {', '.join(base_packages())}"]
    if requirements:
        sentences[0] += f", and in this assignment {', '.join(f'`{line}`' for line in requirements)}"
    sentences[0] += ". Where the notebook is graded, no other packages are installed."
    if data:
        names = ", ".join(f"`data/{name}`" for name in data)
        sentences.append(
            f"You were also given the folder `data`, which belongs beside the notebook (on Colab, upload it to the "
            f"working folder). Your code may read these files of it under these paths: {names}."
        )
    return "\n\n".join(sentences)


def install_cell(requirements: list[str]) -> str:
    """Return the code of the cell that installs the packages where the student works."""
    return f"%pip install -q {shlex.join(requirements)}"


def missing_requirements(requirements: list[str]) -> list[str]:
    """Return the requirements that this Python does not fulfil."""
    from packaging.requirements import Requirement

    missing = []
    for line in requirements:
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate():
            continue
        try:
            fulfilled = wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)
        except metadata.PackageNotFoundError:
            fulfilled = False
        if not fulfilled:
            missing.append(line)
    return missing


def check_installed(requirements: list[str]) -> None:
    """Check that this Python, which also runs students' code, has what an assignment lets students import.

    Raises:
        Refusal: something is missing; the message names the command that installs it.
    """
    if missing := missing_requirements(requirements):
        command = f"{shlex.quote(sys.executable)} -m pip install {shlex.join(missing)}"
        raise Refusal(
            f"The assignment lets students import what is not installed here ({', '.join(missing)}), so nothing is "
            f"graded; install it with `{command}`."
        )


def modules_of(requirement: str) -> list[str]:
    """Return the modules and packages of Python that an installed requirement brings, without private ones."""
    from packaging.requirements import Requirement

    try:
        files = metadata.distribution(Requirement(requirement).name).files or []
    except metadata.PackageNotFoundError:  # it is only for another version of Python
        return []
    names = {
        path.parts[0] if len(path.parts) > 1 else inspect.getmodulename(path.name)
        for path in files
        if inspect.getmodulename(path.name)
    }
    return sorted(name for name in names if name and name.isidentifier() and not name.startswith("_"))
