"""The program that a probe runs instead of the worker: it attacks the sandbox and reports what succeeded.

Each attack is a function of a description of the grader (its files, process id and sockets). It returns an empty
string if it was blocked, and otherwise says what it managed to do.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # in its folder, it stands beside the package
    sys.path.insert(0, str(Path(__file__).resolve().parent))
from llm_grader import wire  # noqa: E402
from llm_grader.worker.confine import confine  # noqa: E402

MIB = 2**20
NEW_USER_NAMESPACE = 0x10000000
PTRACE_SEIZE, SET_NAME, SET_PIPE_SIZE = 0x4206, 15, 1031
libc = ctypes.CDLL(None, use_errno=True)
Target = dict[str, Any]
attacks: dict[str, Callable[[Target], str]] = {}


def attack(name: str) -> Callable[[Callable[[Target], str]], Callable[[Target], str]]:
    """Register a function as an attack under a name for people."""

    def register(function: Callable[[Target], str]) -> Callable[[Target], str]:
        attacks[name] = function
        return function

    return register


def first_success(candidates: Iterable[Any], action: Callable[[Any], object]) -> str:
    """Return the first candidate on which the action succeeds, or an empty string."""
    for candidate in candidates:
        with contextlib.suppress(OSError, ValueError):
            action(candidate)
            return str(candidate)
    return ""


def try_open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


@attack("read the key")
def read_key(target: Target) -> str:
    # also through the root folder of every process that can be seen
    roots = ["", *(f"/proc/{name}/root" for name in os.listdir("/proc") if name.isdigit())]
    files = first_success((root + path for root in roots for path in target["files"]), try_open)
    return files or first_success((root + path for root in roots for path in target["folders"]), os.listdir)


@attack("reach the network")
def reach_network(target: Target) -> str:
    return first_success([socket.AF_INET], lambda family: socket.socket(family).connect(("127.0.0.1", target["port"])))


@attack("reach the grader's socket")
def reach_local_socket(target: Target) -> str:
    return first_success([socket.AF_UNIX], lambda family: socket.socket(family).connect("\0" + target["socket"]))


@attack("read the grader's memory")
def read_grader_memory(target: Target) -> str:
    pid = target["pid"]
    read = first_success((f"/proc/{pid}/{name}" for name in ("environ", "mem", "fd/0")), try_open)
    return read or ("" if libc.ptrace(PTRACE_SEIZE, pid, None, None) else "ptrace")


@attack("signal the grader")
def signal_grader(target: Target) -> str:
    return first_success([target["pid"]], lambda pid: os.kill(pid, 0))


@attack("see other processes")
def see_processes(target: Target) -> str:
    return first_success([f"/proc/{target['pid']}"], os.stat)


@attack("become root")
def become_root(target: Target) -> str:
    with open("/proc/self/status", encoding="utf-8") as file:
        rights = [line for line in file if line.startswith(("CapPrm", "CapEff", "CapAmb")) and int(line.split()[1], 16)]
    return rights[0].strip() if rights else first_success([0], lambda uid: os.setresuid(uid, uid, uid))


@attack("make a namespace")
def make_namespace(target: Target) -> str:
    pid = os.fork()
    if not pid:
        os._exit(libc.unshare(NEW_USER_NAMESPACE) == 0)
    return "unshare" if os.waitpid(pid, 0)[1] else ""


@attack("mount")
def mount(target: Target) -> str:
    return "" if libc.mount(b"none", os.getcwdb(), b"tmpfs", 0, None) else "a tmpfs"


@attack("hide memory")
def hide_memory(target: Target) -> str:
    return first_success(["memfd_create"], os.memfd_create) or ("" if libc.shmget(0, MIB, 0o1600) == -1 else "shmget")


@attack("lift its limits")
def lift_limits(target: Target) -> str:
    most = resource.RLIM_INFINITY
    names = ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE")
    return first_success(names, lambda name: resource.setrlimit(getattr(resource, name), (most, most)))


@attack("fork past the limit")
def fork_past_limit(target: Target) -> str:
    most, children = target["processes"], []
    with contextlib.suppress(OSError):
        while len(children) <= most:
            pid = os.fork()
            if not pid:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return f"{len(children)} processes" if len(children) >= most else ""


@attack("start threads past the limit")
def start_threads_past_limit(target: Target) -> str:
    most, end, threads = target["processes"], threading.Event(), []
    with contextlib.suppress(RuntimeError):
        while len(threads) <= most:
            thread = threading.Thread(target=end.wait)
            thread.start()
            threads.append(thread)
    end.set()
    for thread in threads:  # so that the next attack has room for its processes
        thread.join()
    return f"{len(threads)} threads" if len(threads) >= most else ""


@attack("be spared when memory runs out")
def be_spared(target: Target) -> str:
    def spare(score: int) -> None:
        Path("/proc/self/oom_score_adj").write_text(str(score), encoding="utf-8")

    score = Path("/proc/self/oom_score_adj").read_text(encoding="utf-8").strip()
    return f"its score is {score}" if score != "1000" else first_success([-1000, 0, 999], spare)


@attack("enlarge the kernel's buffers")
def enlarge_buffers(target: Target) -> str:
    one, other = socket.socketpair()
    pipe = os.pipe()
    tries: dict[str, Callable[[], object]] = {
        "a socket": lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB),
        "a pipe": lambda: fcntl.fcntl(pipe[1], SET_PIPE_SIZE, MIB),
    }
    found = first_success(tries, lambda name: tries[name]())
    for fd in (one.detach(), other.detach(), *pipe):
        os.close(fd)
    return found


def try_create(path: Path) -> None:
    folder = path.parent
    if folder.resolve().is_relative_to(Path.cwd()) and folder.stat().st_dev == os.stat(".").st_dev:
        raise OSError  # its own file system, where a parent folder of Python may hide a clone of the repository
    path.touch(exist_ok=False)
    path.unlink()


@attack("write outside its folder")
def write_outside(target: Target) -> str:
    libraries = [*sys.path, os.path.dirname(os.__file__), os.path.dirname(sys.executable)]
    folders = [Path(__file__).parent, *("/", "/etc", "/usr", "/var", "/dev", "/root", "/home", "/proc")]
    folders += [*target["folders"], *libraries, *(Path(__file__).parent).glob("*/")]
    return first_success(
        (Path(folder, f"{target['name']}-written") for folder in folders), try_create
    ) or first_success([__file__, *target["files"]], lambda path: os.open(path, os.O_WRONLY))


@attack("write in shared folders")
def write_in_shared_folders(target: Target) -> str:
    return first_success(map(Path, target["left"]), try_create)


@attack("fill the disk")
def fill_disk(target: Target) -> str:
    written, most, left = 0, 2 * target["disk"], []
    with contextlib.suppress(OSError):
        while written < most:
            left.append(Path(f"{target['name']}-{len(left)}"))
            written += left[-1].write_bytes(bytes(MIB))
    for path in left:
        path.unlink(missing_ok=True)
    return f"{written // MIB} MiB" if written >= most else ""


def leave_behind(target: Target) -> None:
    """Leave an orphaned process and files in world-writable folders; the grader looks for them afterwards."""
    for path in target["left"]:
        with contextlib.suppress(OSError):
            Path(path).touch()
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.closerange(0, 256)
            libc.prctl(SET_NAME, target["name"].encode(), 0, 0, 0)
            time.sleep(60)
        os._exit(0)
    os.wait()


def hold_memory(target: Target) -> None:
    """Hold, in four processes together, more memory than one worker may use."""
    for _ in range(4):
        if not os.fork():
            kept = bytearray(target["memory"] // 3)
            kept[::4096] = bytes(len(kept[::4096])).replace(b"\0", b"x")
            time.sleep(60)
            os._exit(0)
    time.sleep(60)


def hold_buffers(target: Target) -> None:
    """Hold, in sockets of as many processes as possible, more of the kernel's memory than one worker may use.

    Returns if the kernel does not give that much.
    """
    report_fd, write_fd = os.pipe()
    n_children, is_child = 0, False
    with contextlib.suppress(OSError):
        while not is_child:
            is_child = os.fork() == 0
            n_children += 1
    sockets: list[socket.socket] = []
    with contextlib.suppress(OSError, MemoryError):
        while True:
            sockets += socket.socketpair()
    n_bytes = 0
    for each in sockets:
        each.setblocking(False)
        with contextlib.suppress(OSError, MemoryError):
            while True:
                n_bytes += each.send(bytes(2**14))
    if is_child:
        os.write(write_fd, n_bytes.to_bytes(8))
        time.sleep(60)
        os._exit(0)
    while n_children and select.select([report_fd], [], [], 5.0)[0]:
        n_bytes += int.from_bytes(os.read(report_fd, 8))
        n_children -= 1
    if n_bytes >= target["memory"]:
        time.sleep(60)


def run_attacks(target: Target) -> Iterator[tuple[str, str]]:
    """Yield the name and the result of each attack."""
    for name, run in attacks.items():
        try:
            yield name, run(target)
        except Exception as e:  # an attack that fails for a reason of its own has not been tried
            yield name, f"could not be tried: {type(e).__name__}: {e}"


def main(request_fd: int, reply_fd: int, limits: dict[str, int]) -> None:
    missing = confine(limits)
    Path("written").write_bytes(b"x")  # where a worker cannot write in its folder, the sandbox is of no use
    target = wire.receive(request_fd)
    if hold := {"memory": hold_memory, "buffers": hold_buffers}.get(target["hold"]):
        hold(target)
        wire.send(reply_fd, "refused")
        wire.receive(request_fd)
    report = {"load the system call filter": missing, **dict(run_attacks(target))}
    leave_behind(target)
    wire.send(reply_fd, report)
    wire.receive(request_fd)


if __name__ == "__main__":
    with contextlib.suppress(wire.Closed):
        main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
