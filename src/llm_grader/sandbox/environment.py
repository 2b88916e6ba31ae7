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
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


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
    ``llm_anatomy``, and nothing else of this repository.
    """
    own = {f"{GRADER_FOLDER.name}/{name}": GRADER_FOLDER / name for name in ("__init__.py", "wire.py", "worker")}
    return own | {"llm_anatomy": student_package_folder()} | ({extra.name: extra} if extra else {})


def student_package_folder() -> Path:
    """Find the folder of the package that students' code imports, without importing it."""
    spec = find_spec("llm_anatomy")
    if spec is None or not spec.submodule_search_locations:
        raise Refusal("The package llm_anatomy is not installed, and students' code needs it.")
    return Path(spec.submodule_search_locations[0]).resolve()


def readable_paths() -> list[Path]:
    """Return the paths that a worker has to read: system libraries, and the running Python with its packages.

    Each link is followed by its target, and no path lies below an earlier one.
    """
    found: list[Path] = []

    def add(path: Path) -> None:
        if path.is_symlink() or path.exists():
            covered = any(path.is_relative_to(other) for other in found if not other.is_symlink())
            found.extend([] if covered else [path])

    for path in LIBRARIES:
        add(Path(path))
    add(Path(sys.base_prefix, "lib").resolve())
    for name in ("stdlib", "platstdlib"):
        add(Path(sysconfig.get_path(name)).resolve())
    for folder in site.getsitepackages():
        add(Path(folder).resolve())
    add(Path(sys.prefix, "pyvenv.cfg"))
    # in a virtual environment, a chain of links leads to Python
    link = Path(sys.executable)
    while link.is_symlink():
        add(link)
        link = link.parent / link.readlink()
    add(link)
    return found


def setpriv_prefix(uid: int | None) -> list[str]:
    """Return the words before a command that run it as another user, who can never become anyone else."""
    if uid is None:
        return []
    rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *rights, "--"]
