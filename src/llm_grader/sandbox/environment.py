"""The environment of a worker: its variables, the files that it may read, and its user."""

import site
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from groundwork import Refusal

GRADER_FOLDER = Path(__file__).resolve().parents[1]
LIBRARIES = (
    *("/lib", "/lib64", "/lib32", "/libx32", "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32"),
    "/etc/ld.so.cache",
)
DATA = "data-files"  # in the program folder; a worker links to it under the name data. No module can have this name
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


provided_data: dict[str, Path] = {}
"""``DATA`` → folder with the data files of the assignment if it has any, see :mod:`llm_grader.sandbox.workdir`."""


def environment_variables(tmp: str) -> dict[str, str]:
    """Return the environment variables of a worker, which inherits none from the grader."""
    one_thread = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    homes = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
    return {
        **dict.fromkeys(one_thread, "1"),
        **dict.fromkeys(homes, tmp),
        "IPYTHONDIR": f"{tmp}/ipython",
        "MPLCONFIGDIR": f"{tmp}/matplotlib",
        "MPLBACKEND": "Agg",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "LANG": "C.UTF-8",
        "USER": "worker",  # a worker cannot read the list of accounts
    }


def worker_files(extra: Path | None = None) -> dict[str, Path]:
    """Return the files that a worker sees in its program folder: relative path → file or folder.

    The worker's program puts this folder on its import path. It contains ``llm_grader.wire``, ``llm_grader.worker`` and
    ``llm_anatomy``, the data files of the assignment, and nothing else of this repository.
    """
    own = {f"{GRADER_FOLDER.name}/{name}": GRADER_FOLDER / name for name in ("__init__.py", "wire.py", "worker")}
    own |= provided_data
    return own | {"llm_anatomy": student_package_folder()} | ({extra.name: extra} if extra else {})


def student_package_folder() -> Path:
    """Find the folder of the package that students' code imports, without importing it."""
    spec = find_spec("llm_anatomy")
    if spec is None or not spec.submodule_search_locations:
        raise Refusal("The package llm_anatomy is not installed, and students' code needs it.")
    return Path(spec.submodule_search_locations[0]).resolve()


def readable_paths() -> list[Path]:
    """Return the paths that a worker has to read: system libraries, and the running Python with its packages.

    Each link on the way to one of them is among them, followed by what it leads to, since Python looks for its packages
    under the name by which it was started. No path lies below an earlier one.
    """
    found: list[Path] = []
    paths = [Path(sys.base_prefix, "lib"), *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))]
    paths += [*map(Path, site.getsitepackages()), Path(sys.prefix, "pyvenv.cfg"), Path(sys.executable)]
    for path in (*map(Path, LIBRARIES), *paths):
        for step in links_and_target(path) if path.exists() else []:
            if not any(step == other or step.is_relative_to(other) and not other.is_symlink() for other in found):
                found.append(step)
    return found


def links_and_target(path: Path) -> list[Path]:
    """Return the links that are followed on the way to an absolute path, and last what it leads to.

    No folder above any of them is a link.
    """
    links, reached, ahead = [], Path("/"), list(reversed(path.parts))
    while ahead:
        part = ahead.pop()
        reached = reached.parent if part == ".." else reached / part
        if reached.is_symlink():
            links.append(reached)
            ahead += reversed(reached.readlink().parts)
            reached = reached.parent
    return [*links, reached]


def closed_folder(path: Path) -> Path | None:
    """Return the uppermost folder above a path that other users cannot enter, if there is one."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def setpriv_prefix(uid: int | None) -> list[str]:
    """Return the words before a command that run it as another user, who can never become anyone else."""
    if uid is None:
        return []
    rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *rights, "--"]
