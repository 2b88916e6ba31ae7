"""Checkpoints of a training run: written in the background, whole or not at all, and read by any number of ranks.

A run's folder holds one folder for each checkpoint, such as ``step-00000500``, with one file of each rank, the
``.metadata`` of ``torch.distributed.checkpoint`` and ``checkpoint.json``. A checkpoint is written into a folder whose
name ends in ``.partial`` and gets its own name when the last rank is done, so that a process that is killed at any
moment leaves the last whole checkpoint as it was.

Like those of PyTorch, these files may run code when they are read: read only those that you trust.
"""

import io
import json
import math
import os
import pickle
import platform
import random
import re
import shutil
import time
import uuid
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.storage import WriteResult

from llm_anatomy.files import Record, first_line, replace_folder

T = TypeVar("T")

FORMAT = 1
NAME = re.compile(r"step-(\d{8,})")
ABOUT = "checkpoint.json"
LOCK_TIMEOUT_S = 60.0
"""How long a run waits for another process that still uses its folder, such as one that is just ending."""


class DamagedCheckpoint(ValueError):
    """A checkpoint that cannot be read, because a file is missing, too short, or altered.

    Source: GT-03.

    >>> raise DamagedCheckpoint("step-00000500 is damaged: __0_0.distcp is missing")
    Traceback (most recent call last):
    llm_anatomy.training.lab.checkpoints.DamagedCheckpoint: step-00000500 is damaged: __0_0.distcp is missing
    """


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer, **more: Any) -> dict[str, Any]:
    """Collect what a run needs to go on: weights, the optimizer's state, this rank's random numbers, and more.

    The names of parameters are those of the bare model, without the prefixes of DDP or ``torch.compile``, so that runs
    of any kind and any number of ranks read each other's checkpoints. The tensors are those of the run itself, not
    copies; :meth:`Checkpoints.save` copies them, and :meth:`Checkpoints.load` writes into them.

    An optimizer without a state gets one, as after a step with gradients of zero. Call this function before the first
    step of a run only to load a checkpoint.

    Args:
        model: plain, in DDP, or sharded by ``fully_shard``.
        optimizer: its optimizer.
        more: what else the run must remember, the same on each rank: a dict of tensors, such as averaged weights, or a
            plain value, such as the position in the data.

    Source: the documentation of PyTorch, ``torch.distributed.checkpoint.state_dict``; GT-03.

    >>> model = nn.Linear(2, 3)
    >>> sorted(training_state(model, torch.optim.AdamW(model.parameters()), position=7))
    ['model', 'more', 'optimizer', 'random-0']
    """
    weights, optimizer_state = get_state_dict(model, optimizer)
    averaged = {name: value for name, value in more.items() if _holds_tensors(value)}
    plain = {name: value for name, value in more.items() if name not in averaged}
    state = {"model": weights, "optimizer": optimizer_state, "more": pickle.dumps(plain), **averaged}
    return state | {f"random-{_rank()}": pickle.dumps(_random_state())}


def restore_training_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> dict[str, Any]:
    """Give a loaded state back to the model, the optimizer and the generators of random numbers.

    A rank that the saved run did not have keeps its random numbers.

    Args:
        model, optimizer: those that :func:`training_state` was called with.
        state: what it returned, after :meth:`Checkpoints.load`.

    Returns:
        The other values that were saved, by name.

    Source: the documentation of PyTorch, ``torch.distributed.checkpoint.state_dict``; GT-03.

    >>> model = nn.Linear(2, 3)
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> restore_training_state(model, optimizer, training_state(model, optimizer, position=7))
    {'position': 7}
    """
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    own = f"random-{_rank()}"
    if own in state:
        _set_random_state(pickle.loads(state[own]))
    taken = {"model", "optimizer", "more"}
    others = {name: value for name, value in state.items() if name not in taken and not name.startswith("random-")}
    return pickle.loads(state["more"]) | others


class Checkpoints:
    """The checkpoints of a run. All ranks make one, and all call its methods in the same order.

    Args:
        folder: holds the checkpoints of one run, on a file system that all ranks share; made if there is none.
        keep_last: number of the newest checkpoints to keep, at least 1.
        keep_best: whether the one with the lowest loss is kept as well.
        asynchronous: whether :meth:`save` returns as soon as the state is copied to the CPU's memory.
        fingerprint: plain values, nested or not, that a run must share with a checkpoint that it loads.

    Raises:
        ValueError: if ``keep_last`` is below 1.
        ImportError: with a PyTorch before 2.9.
        OSError: if another process uses the folder, or it cannot be made.

    Source: the documentation of PyTorch, ``torch.distributed.checkpoint``; Zhang et al. (2022), section 2.5; GT-03.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> model = nn.Linear(2, 3)
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> checkpoints = Checkpoints(folder.name, fingerprint={"model": {"d_model": 2}})
    >>> checkpoints.save(500, training_state(model, optimizer, position=7))
    >>> checkpoints.wait()
    >>> step, state = checkpoints.resume(lambda: training_state(model, optimizer))
    >>> step, restore_training_state(model, optimizer, state)
    (500, {'position': 7})
    >>> checkpoints.close()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep_last: int = 3,
        keep_best: bool = True,
        asynchronous: bool = True,
        fingerprint: Mapping[str, Any],
    ):
        if keep_last < 1:
            raise ValueError(f"{keep_last=} must be at least 1")
        self.folder = Path(folder)
        self.keep_last, self.keep_best, self.asynchronous = keep_last, keep_best, asynchronous
        self.fingerprint = _flat(fingerprint)
        # Its own group: while the saving thread communicates, so do the steps of the run.
        self._group = cast(dist.ProcessGroup, dist.new_group(backend="gloo")) if dist.is_initialized() else None
        self._stager = _stager()
        self._pending: tuple[int, Path, Future] | None = None
        self._last_step: int | None = None
        self._lock = None
        # PyTorch says at each call that there is no process group. A filter for it alone is set once, because filters
        # cannot be changed in the saving thread without changing those of the run.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        self._attempt = self._on_first_rank(self._open)

    def save(self, step: int, state: dict[str, Any], loss: float | None = None) -> None:
        """Copy the state and write it in the background, after the last checkpoint is written.

        A step that was the last to be saved is not saved again, on no rank.

        Args:
            step: number of steps done.
            state: what :func:`training_state` returns.
            loss: by which the best checkpoint is found; one without a loss, or with one that is not finite, is not.

        Raises:
            OSError: if the last checkpoint could not be written; or this one, where saving is not asynchronous.
        """
        if step == self._last_step:
            return
        self.wait()
        self._last_step = step
        partial = self.folder / f"step-{step:08d}.{self._attempt}.partial"
        about = {
            "format": FORMAT,
            "step": step,
            "loss": loss if loss is not None and math.isfinite(loss) else None,
            "n_ranks": dist.get_world_size() if self._group else 1,
            "fingerprint": self.fingerprint,
            "environment": _environment(),
        }
        writer = _Writer(partial, self.folder / f"step-{step:08d}", about, self._prune)
        future = async_save(state, storage_writer=writer, process_group=self._group, async_stager=self._stager)
        self._pending = step, partial, future  # pyright: ignore[reportAttributeAccessIssue]
        if not self.asynchronous:
            self.wait()

    def wait(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            OSError: if it could not be written, on all ranks. The checkpoints before it stay as they are.
        """
        if self._pending is None:
            return
        (step, partial, future), self._pending = self._pending, None
        try:
            future.result()
        except (Exception, CheckpointException) as error:
            self._last_step = None
            if _rank() == 0:
                shutil.rmtree(partial, ignore_errors=True)  # a full disk gets its room back
            newest = self.latest()
            last = "there is none before it" if newest is None else f"the last good one is of step {newest}"
            raise OSError(f"the checkpoint of step {step} could not be written ({reason(error)}); {last}") from None

    def steps(self) -> list[int]:
        """The steps of all checkpoints, from the oldest on."""
        matches = (NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def latest(self) -> int | None:
        """The step of the newest checkpoint; None where there is none."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The step of the checkpoint with the lowest loss; None where none has a loss. Of equal ones, the newest."""
        losses = []
        for step in self.steps():
            try:
                loss = self._about(step).get("loss")
            except DamagedCheckpoint:
                continue
            if loss is not None:
                losses.append((loss, -step))
        return -min(losses)[1] if losses else None

    def load(self, step: int, state: dict[str, Any]) -> None:
        """Read a checkpoint into a state, whose tensors are changed.

        Args:
            step: of the checkpoint.
            state: what :func:`training_state` returns in this run.

        Raises:
            ValueError: if a value of the fingerprint differs, or the model is another; the message names it.
            DamagedCheckpoint: if a file is missing, too short, or altered. The state may then be partly changed.
        """
        self.wait()
        self._last_step = None
        path = self._path(step)
        self._on_first_rank(lambda: self._check(step))
        saved = self._on_every_rank(lambda: _verify(path, _rank(), dist.get_world_size() if self._group else 1))
        wanted = {key: value for key, value in state.items() if not key.startswith("random-") or key in saved}
        try:
            load(wanted, checkpoint_id=path, process_group=self._group)
        except CheckpointException as error:
            if error.args[0] == "read":
                raise DamagedCheckpoint(f"{path.name} is damaged: {reason(error)}") from None
            raise ValueError(f"{path.name} does not fit this model or optimizer: {reason(error)}") from None
        for key in state.keys() - wanted.keys():
            del state[key]
        state.update(wanted)

    def resume(
        self,
        state: Callable[[], dict[str, Any]],
        *,
        up_to: int | None = None,
        report: Callable[[str], object] = warnings.warn,
    ) -> tuple[int, dict[str, Any]] | None:
        """Load the newest checkpoint that can be read.

        Damaged ones after it are reported and set aside, under names that end in ``.damaged``.

        Args:
            state: makes the state to be loaded into, called only if there is a checkpoint.
            up_to: to rewind a run, the last step that may be loaded. Later checkpoints are removed.
            report: called on rank 0 with a sentence for each damaged checkpoint.

        Returns:
            The step and the state; None where there is no checkpoint.

        Raises:
            ValueError: if a value of the fingerprint differs, or the model is another, as in :meth:`load`; or if there
                are checkpoints, but all of them are damaged or after the given step. They stay as they are.
        """
        self.wait()
        found, damaged = self._on_first_rank(self.steps), {}
        if not found:
            return None
        for step in reversed([step for step in found if up_to is None or step <= up_to]):
            loaded = state()
            try:
                self.load(step, loaded)
            except DamagedCheckpoint as error:
                damaged[step] = error
                continue
            self._on_first_rank(lambda step=step: self._leave_behind(step, damaged, report))
            return step, loaded
        which = f"all {len(found)} checkpoints" if up_to is None else f"all checkpoints up to step {up_to}"
        if damaged:
            raise ValueError(f"{which} in {self.folder} are damaged; {damaged[max(damaged)]}")
        raise ValueError(f"{self.folder} has no checkpoint up to step {up_to}; there are {found}")

    def close(self) -> None:
        """Wait for the last checkpoint and leave the folder to other runs.

        Raises:
            OSError: if the checkpoint could not be written.
        """
        try:
            self.wait()
        finally:
            self._stager.close()
            if self._lock is not None:
                self._lock.close()
            if self._group is not None:
                dist.destroy_process_group(self._group)
                self._group = None

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _open(self) -> str:
        """Lock the folder and remove what a killed run left in it.

        Returns:
            What tells this run's drafts from those of a killed run, one rank of which may still be writing.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.folder / "lock")
        for path in self.folder.glob("step-*.partial*"):
            shutil.rmtree(path, ignore_errors=True)
        return uuid.uuid4().hex[:8]

    def _on_first_rank(self, action: Callable[[], T]) -> T:
        """Do something on rank 0; all ranks return its result, or raise its error."""
        result: list[Any] = [None, None]
        if _rank() == 0:
            try:
                result[0] = action()
            except Exception as error:
                result[1] = error
        if self._group is not None:
            dist.broadcast_object_list(result, src=0, group=self._group)
        if result[1] is not None:
            raise result[1]
        return result[0]

    def _on_every_rank(self, action: Callable[[], T]) -> T:
        """Do something on each rank; where one fails, all ranks raise its error."""
        result = error = None
        try:
            result = action()
        except Exception as raised:
            error = raised
        errors: list[Any] = [error]
        if self._group is not None:
            errors *= dist.get_world_size(self._group)
            dist.all_gather_object(errors, error, group=self._group)
        for error in filter(None, errors):
            raise error
        return cast(T, result)

    def _about(self, step: int) -> dict[str, Any]:
        path = self._path(step)
        try:
            return Record.read(path / ABOUT).fields
        except FileNotFoundError:
            raise DamagedCheckpoint(f"{path.name} is damaged: {ABOUT} is missing") from None
        except (OSError, ValueError) as error:
            raise DamagedCheckpoint(f"{path.name} is damaged: {first_line(error)}") from None

    def _check(self, step: int) -> None:
        path = self._path(step)
        if not path.is_dir():
            raise ValueError(f"{self.folder} has no checkpoint of step {step}; there are {self.steps()}")
        about = self._about(step)
        if about.get("format") != FORMAT:
            raise ValueError(f"{path.name} has format {about.get('format')}; this version reads format {FORMAT}")
        for key in ("fingerprint", "files"):
            if not isinstance(about.get(key), dict):
                raise DamagedCheckpoint(f"{path.name} is damaged: {ABOUT} has no {key}")
        theirs = about["fingerprint"]
        for name in theirs | self.fingerprint:
            there, here = (values.get(name, "not set") for values in (theirs, self.fingerprint))
            if there != here:
                raise ValueError(f"{path.name} was made with {name}={there!r}, and this run has {name}={here!r}")
        for name, size in about["files"].items():
            file = path / name
            if not file.exists():
                raise DamagedCheckpoint(f"{path.name} is damaged: {name} is missing")
            if file.stat().st_size != size:
                raise DamagedCheckpoint(
                    f"{path.name} is damaged: {name} has {file.stat().st_size:,} bytes, and {size:,} were written"
                )

    def _leave_behind(self, step: int, damaged: Mapping[int, Exception], report: Callable[[str], object]) -> None:
        """Set damaged checkpoints aside, and remove the others after the step from which the run goes on."""
        for number, error in damaged.items():
            report(f"{error}; it is set aside, and the run goes on from step {step}")
            aside = self._path(number).with_suffix(".damaged")
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(self._path(number), aside)
        for later in self.steps():
            if later > step:
                self._remove(later)

    def _prune(self) -> None:
        """Remove all checkpoints but the last ones and the best."""
        steps = self.steps()
        kept = {*steps[-self.keep_last :], *([self.best()] if self.keep_best else [])}
        for step in steps:
            if step not in kept:
                self._remove(step)

    def _remove(self, step: int) -> None:
        """First rename, lest a process that is killed leave half a checkpoint under the name of a whole one."""
        draft = self._path(step).with_suffix(f".{self._attempt}.partial")
        os.replace(self._path(step), draft)
        shutil.rmtree(draft, ignore_errors=True)


def reason(error: BaseException) -> str:
    """Say in a few words why a checkpoint could not be written or read.

    Args:
        error: the exception, which may hold those of several ranks.

    Source: the documentation of PyTorch, ``torch.distributed.checkpoint``; GT-03.

    >>> reason(OSError(28, "No space left on device")), reason(RuntimeError("Size mismatch.\\nTraceback ..."))
    ('No space left on device', 'Size mismatch')
    """
    where = ""
    if isinstance(error, CheckpointException):
        rank, (error, _) = min(error.failures.items())
        where = f" on rank {rank}" if dist.is_initialized() else ""
    return (getattr(error, "strerror", None) or first_line(error).rstrip(".") or type(error).__name__) + where


class _Writer(FileSystemWriter):
    """Write into a draft. When the files of all ranks are there, rank 0 gives the draft its own name, then prunes."""

    def __init__(self, draft: Path, folder: Path, about: dict[str, Any], prune: Callable[[], None]):
        super().__init__(draft)
        self.draft, self.folder, self.about, self.prune = draft, folder, about, prune

    def write_data(self, plan: Any, planner: Any) -> Any:
        with _causes_named():
            return super().write_data(plan, planner)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called on rank 0 alone, after all ranks have written and synced their files."""
        super().finish(metadata, results)
        self.about["files"] = {path.name: path.stat().st_size for path in sorted(self.draft.iterdir())}
        written = {result.storage_data.relative_path for of_rank in results for result in of_rank}
        missing = written - self.about["files"].keys()
        if missing:
            raise FileNotFoundError(f"{min(missing)} is not in {self.draft.parent}: do all ranks share this folder?")
        with open(self.draft / ABOUT, "w", encoding="utf-8") as file:
            json.dump(self.about, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        _sync(self.draft)
        replace_folder(self.draft, self.folder)
        _sync(self.folder.parent)
        shutil.rmtree(self.draft, ignore_errors=True)  # the one that it has replaced, if any
        self.prune()


def _verify(path: Path, rank: int, n_ranks: int) -> Mapping[str, Any]:
    """Compare this rank's share of the files with the checksums that PyTorch writes, but does not compare itself.

    Returns what the checkpoint holds, by name.
    """
    try:
        metadata = FileSystemReader(path).read_metadata()
        by_file = defaultdict(list)
        for info in metadata.storage_data.values():
            by_file[info.relative_path].append(info)
        for name in sorted(by_file)[rank::n_ranks]:
            with open(path / name, "rb") as file:
                for info in by_file[name]:
                    file.seek(info.offset)
                    with zipfile.ZipFile(io.BytesIO(file.read(info.length))) as archive:
                        if archive.testzip() is not None:
                            raise DamagedCheckpoint(f"{path.name} is damaged: the content of {name} has changed")
    except DamagedCheckpoint:
        raise
    except Exception as error:  # whatever unpickling makes of changed bytes
        raise DamagedCheckpoint(f"{path.name} is damaged: its files cannot be read ({first_line(error)})") from None
    return metadata.state_dict_metadata


def _stager() -> Any:
    """What copies a state to the CPU's memory, into buffers that it keeps; before the run goes on, all is copied."""
    try:
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    except ImportError:
        raise ImportError("checkpoints of training runs need PyTorch 2.9 or later") from None
    on_gpu = torch.cuda.is_available()
    options = StagingOptions(
        use_pinned_memory=on_gpu, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=on_gpu
    )
    return DefaultStager(options)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _holds_tensors(value: Any) -> bool:
    values = value.values() if isinstance(value, Mapping) else [value]
    return any(isinstance(one, torch.Tensor) or (isinstance(one, Mapping) and _holds_tensors(one)) for one in values)


def _random_state() -> dict[str, Any]:
    states = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.accelerator.is_available():
        states["accelerator"] = torch.get_device_module().get_rng_state()
    return states


def _set_random_state(states: Mapping[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if "accelerator" in states and torch.accelerator.is_available():
        torch.get_device_module().set_rng_state(states["accelerator"])


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted names, as JSON gives them back."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.loads(json.dumps(value))
    return flat


def _environment() -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    accelerator = torch.accelerator.is_available()
    device = torch.get_device_module().get_device_name() if accelerator and torch.cuda.is_available() else "cpu"
    return versions | {"platform": platform.platform(), "device": device}


def _lock(path: Path) -> Any:
    """Lock a file for as long as this process lives, also if it is killed; None where the system has no such locks.

    The lock belongs to this process alone: the workers that it forks do not share it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115, it stays open
    until = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                file.seek(0)
                owner = file.read().strip()
                raise OSError(f"{path.parent} is in use by process {owner}; wait for it to end, or stop it") from None
            time.sleep(0.1)
        except OSError:  # a file system without locks
            file.close()
            return None
    file.truncate(0)
    file.write(f"{os.getpid()} on {platform.node()}")
    file.flush()
    return file


def _sync(folder: Path) -> None:
    """Have the names in a folder written to the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _causes_named() -> Iterator[None]:
    """Raise the operating system's error instead of the one that PyTorch's serialization makes of it."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None or cause is error:
            raise
        raise cause from None
