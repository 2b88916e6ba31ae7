"""What a worker finds around it: its environment, the files that it can read, and the rights that it has not."""

import site
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from groundwork import Refusal

GRADER = Path(__file__).resolve().parents[1]
LIBRARIES = (
    *("/lib", "/lib64", "/lib32", "/libx32", "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32"),
    "/etc/ld.so.cache",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def environment(tmp: str) -> dict[str, str]:
    """All that a worker finds in its environment."""
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
        "USER": "worker",  # there is no list of accounts to look it up in
    }


def parts(extra: Path | None = None) -> dict[str, Path]:
    """What stands in the one folder of ours that a worker sees: path in it → file or folder.

    Its program puts that folder on the path of imports, and finds ``llm_grader.wire``, ``llm_grader.worker`` and
    ``llm_anatomy`` there, and nothing else of the house.
    """
    ours = {f"{GRADER.name}/{name}": GRADER / name for name in ("__init__.py", "wire.py", "worker")}
    return ours | {"llm_anatomy": learner_side()} | ({extra.name: extra} if extra else {})


def learner_side() -> Path:
    """The folder of the package that students' code imports, found without importing it."""
    spec = find_spec("llm_anatomy")
    if spec is None or not spec.submodule_search_locations:
        raise Refusal("the package llm_anatomy is not installed, and students' code needs it.")
    return Path(spec.submodule_search_locations[0]).resolve()


def visible() -> list[Path]:
    """System libraries and the running Python with its packages, and no more of either: what a worker has to see.

    Links come with what they lead to, and nothing stands below something that comes before it.
    """
    found: list[Path] = []

    def show(path: Path) -> None:
        if path.is_symlink() or path.exists():
            covered = any(path.is_relative_to(other) for other in found if not other.is_symlink())
            found.extend([] if covered else [path])

    for path in LIBRARIES:
        show(Path(path))
    show(Path(sys.base_prefix, "lib").resolve())
    for name in ("stdlib", "platstdlib"):
        show(Path(sysconfig.get_path(name)).resolve())
    for folder in site.getsitepackages():
        show(Path(folder).resolve())
    show(Path(sys.prefix, "pyvenv.cfg"))
    # a virtual environment names its Python by a chain of links
    link = Path(sys.executable)
    while link.is_symlink():
        show(link)
        link = link.parent / link.readlink()
    show(link)
    return found


def lowered(uid: int | None) -> list[str]:
    """What a command is preceded by to run as another user, who can never become anyone else."""
    if uid is None:
        return []
    rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *rights, "--"]
