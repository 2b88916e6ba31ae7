"""Each sandbox that works on this machine blocks attacks, is refused when it is broken, and leaves nothing behind."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from readable_python import run_tests

from groundwork import Refusal
from llm_grader import classrun, sandbox, wire
from llm_grader.sandbox import Limits, Worker, base, bubblewrap, cgroups, choose, environment, uids, workers_that_fit
from llm_grader.sandbox.bubblewrap import Bubblewrap
from llm_grader.sandbox.probing import probe, repositories
from llm_grader.sandbox.processes import process_table
from llm_grader.sandbox.sandlock import Sandlock
from llm_grader.sandbox.setuid import SetuidSandbox, Unconfined
from llm_grader.sandbox.workdir import temporary_folder

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
LIMITS = Limits(memory=256 * MIB, address_space=2048 * MIB, processes=32, open_files=128, disk=16 * MIB)
KINDS = [Bubblewrap, Sandlock, SetuidSandbox]
START = """
import json, os, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from llm_grader import wire
from llm_grader.worker.confine import confine
missing = confine(json.loads(sys.argv[3]))
source, to = int(sys.argv[1]), int(sys.argv[2])
def mark(name):
    import ctypes
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
def answer(message):
    wire.send(to, message)
    wire.receive(source)
"""
numbers = iter(range(10**6))


def folder_in(below, prefix="tmp"):
    if not os.access(below, os.W_OK):
        pytest.skip(f"this user may not write to {below}")
    return tempfile.TemporaryDirectory(dir=below, prefix=prefix)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    if missing := request.param().unavailable_reason():
        pytest.skip(f"{request.param.name} cannot be tried here: {missing}")
    return request.param


@pytest.fixture
def boxed():
    if missing := Bubblewrap().unavailable_reason():
        pytest.skip(f"bubblewrap cannot be tried here: {missing}")
    return Bubblewrap()


@pytest.fixture(params=["grouped", "alone"])
def grouping(request, monkeypatch):
    """With a control group of the kernel where there can be one, and without."""
    if request.param == "alone":
        monkeypatch.setattr(cgroups, "_parents", list)
    elif not cgroups._parents():
        pytest.skip("this process cannot create control groups")


@pytest.fixture
def private():
    """Below /tmp, where a worker may write: elsewhere, Landlock may still hold a sandbox that is broken."""
    with folder_in("/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def start(tmp_path):
    """Starts a worker that runs some code, and ends it after the test."""
    with ExitStack() as started:

        def start(box, code, limits=LIMITS) -> Worker:
            worker = box.start(limits, program(tmp_path, code))
            started.callback(worker.stop)
            return worker

        yield start


def program(folder, code):
    path = folder / f"program_{os.getpid()}_{next(numbers)}.py"
    path.write_text(START + code)
    return path


def hear(worker, seconds=60):
    try:
        return wire.receive(worker.reply_fd, time.monotonic() + seconds)
    except wire.WireError as e:
        raise AssertionError(f"{e}: {worker.error_output()}") from e


def closed(worker, seconds=60):
    with pytest.raises(wire.Closed):
        wire.receive(worker.reply_fd, time.monotonic() + seconds)


def named(name):
    def comm(pid):
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""

    return [pid for pid in process_table() if comm(pid) == name]


def soon(condition, seconds=60):
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest
        time.sleep(0.02)


def own_files():
    """The open files of this process, but for those that the watchdog opens for a moment."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            if not os.readlink(f"/proc/self/fd/{fd}").startswith(("/proc/", "/sys/")):
                found.append(fd)
    return sorted(found)


def broken(findings):
    return {finding.attack for finding in findings if not finding.blocked}


# --- attacks


def test_a_sandbox_blocks_all_attacks_but_its_known_gaps(kind, private, grouping):
    findings = probe(kind(), [private])
    assert len(findings) == 23, [str(finding) for finding in findings]
    assert broken(findings) <= kind.known_gaps, [str(finding) for finding in findings if not finding.blocked]


def test_probing_leaves_nothing_in_private_folders(boxed, private):
    probe(boxed, [private])
    assert not list(private.iterdir())


def shown(option, path):
    on_the_way = [str(folder) for folder in reversed(Path(path).parents[:-1])]
    return [*(word for folder in on_the_way for word in ("--dir", folder)), option, path, path]


FAULTS = {
    "a mount that shows the key": ("read the key", lambda words, key: shown("--ro-bind", key)),
    "a mount that can be written": ("write outside its folder", lambda words, key: shown("--bind", key)),
    "no process ids of its own": ("see other processes", lambda words, key: words.remove("--unshare-pid")),
    "a folder of its own in which it cannot write": (
        "start",
        lambda words, key: words.__setitem__(words.index("--perms") + 1, "0555"),
    ),
    "no cap on its files": (
        "fill the disk",
        lambda words, key: words.__setitem__(words.index("--size") + 1, str(2**30)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_sandbox_is_refused(fault, boxed, private, monkeypatch):
    attack, change = FAULTS[fault]

    class Broken(Bubblewrap):
        def command(self, *arguments):
            words = super().command(*arguments)
            private.chmod(0o777)
            added = change(words, str(private)) or []
            end = words.index("--remount-ro")
            return [*words[:end], *added, *words[end:]]

    monkeypatch.setattr(sandbox, "SANDBOXES", (Broken,))
    with pytest.raises(Refusal, match=f"bubblewrap: {attack}: NOT blocked"):
        choose([private])


@pytest.mark.parametrize(
    ("change", "attacks"),
    [
        (
            "def confine(limits): return ''",
            {"make a namespace", "hide memory", "lift its limits", "fork past the limit"},
        ),
        ("import sys; sys.modules['pyseccomp'] = None", {"load the system call filter"}),
    ],
    ids=["no limits", "no filter"],
)
def test_a_worker_that_is_not_confined_is_noticed(change, attacks, boxed, private, tmp_path, monkeypatch):
    copy = tmp_path / "worker"
    shutil.copytree(environment.GRADER_FOLDER / "worker", copy)
    with open(copy / "confine.py", "a") as file:
        file.write(f"\n{change}\n")
    whole = environment.worker_files
    monkeypatch.setattr(bubblewrap, "worker_files", lambda extra: whole(extra) | {"llm_grader/worker": copy})
    if not boxed.changes_user:
        attacks = attacks - {"make a namespace"}  # there bubblewrap forbids it as well
    assert attacks <= broken(probe(boxed, [private]))


def test_a_missing_watchdog_is_noticed(kind, private, monkeypatch):
    monkeypatch.setattr(Worker, "enforce_limits", lambda worker, processes: None)
    monkeypatch.setattr(cgroups, "_parents", list)
    monkeypatch.setattr("llm_grader.sandbox.probing.SECONDS", 1.0)
    monkeypatch.setattr("llm_grader.sandbox.probing._run_attacks", lambda *given: {"read the key": ""})
    assert {"hold too much memory", "hold too much of the kernel's memory"} <= broken(probe(kind(), [private]))


def test_a_root_that_keeps_its_rights_is_noticed(boxed, private, monkeypatch):
    if not boxed.changes_user:
        pytest.skip("only root has rights to keep")
    monkeypatch.setattr(bubblewrap, "setpriv_prefix", lambda uid: ["setpriv", "--inh-caps=-all", "--"])
    assert {"become root", "fork past the limit"} <= broken(probe(boxed, [private]))


def test_setuid_says_what_to_do_about_a_private_folder_that_others_can_read(private):
    if missing := SetuidSandbox().unavailable_reason():
        pytest.skip(f"setuid cannot be tried here: {missing}")
    folder = Path("/var/tmp") / f"open-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        with pytest.raises(Refusal, match=f"read the key: NOT blocked .{folder}.*chmod 700"):
            choose([folder], "setuid")
        folder.chmod(0o700)
        assert choose([folder], "setuid")[0].name == "setuid"
    finally:
        folder.rmdir()


def test_the_history_of_a_private_folder_is_private_as_well(tmp_path, monkeypatch):
    """The repository around masters, also where a worktree, a submodule or a shared store keeps it elsewhere."""

    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    git("init", f"{tmp_path}/store")
    git("-C", f"{tmp_path}/store", "commit", "--allow-empty", "-m", "first")
    git("clone", "--shared", f"{tmp_path}/store", f"{tmp_path}/main")
    git("-C", f"{tmp_path}/main", "worktree", "add", f"{tmp_path}/tree")
    masters = [tmp_path / name / "private" / "masters" for name in ("main", "tree")]
    for folder in masters:
        folder.mkdir(parents=True)
    store, main = tmp_path / "store" / ".git" / "objects", tmp_path / "main" / ".git"
    assert set(repositories(masters[:1])) == {main, store}
    assert set(repositories(masters[1:])) >= {main / "worktrees" / "tree", main}
    assert repositories([tmp_path]) == []


def test_setuid_is_refused_where_the_history_of_masters_can_be_read():
    if missing := SetuidSandbox().unavailable_reason():
        pytest.skip(f"setuid cannot be tried here: {missing}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as repository:
        os.chmod(repository, 0o755)
        history, masters = Path(repository, ".git"), Path(repository, "masters")
        history.mkdir(mode=0o711)
        masters.mkdir(mode=0o700)
        (history / "packed-refs").write_text("a hidden case")
        with pytest.raises(Refusal, match=f"read the key: NOT blocked .{history}/packed-refs: .*chmod 700"):
            choose([masters], "setuid")
        history.chmod(0o700)
        assert choose([masters], "setuid")[0].name == "setuid"


def test_nothing_in_shared_folders_reaches_another_submission(kind, start):
    """Neither the next one nor one at the same time, wherever every user may write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as shared:
        os.chmod(shared, 0o755)
        Path(shared, "open").mkdir()
        Path(shared, "open").chmod(0o777)
        Path(shared, "file").touch()
        Path(shared, "file").chmod(0o666)
        places = [f"{folder}/note" for folder in ("/tmp", "/var/tmp", "/dev/shm", f"{shared}/open")] + [
            f"{shared}/file"
        ]
        leave = f"""
left = 0
for path in {places}:
    try:
        with open(path, "a") as file:
            file.write("solution")
        os.chmod(path, 0o644)
    except OSError:
        pass
answer(os.getcwd())
"""
        look = f"""
found = []
for path in {places}:
    try:
        found += [path] if open(path).read() else []
    except OSError:
        pass
answer(found)
"""
        first = start(kind(), leave)
        hear(first)
        assert hear(start(kind(), look)) == []
        first.stop()
        assert hear(start(kind(), look)) == []


def test_what_a_worker_left_is_found_below_folders_in_which_every_user_may_write(tmp_path, monkeypatch):
    if os.geteuid():
        pytest.skip("only root can give a file to another user")
    for folder in ("closed", "open/open"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("closed/a", "open/b", "open/open/c"):
        (tmp_path / path).touch()
        os.chown(tmp_path / path, uids.UID_RANGE[0], -1)
    for path in (tmp_path, tmp_path / "open", tmp_path / "open/open"):
        path.chmod(0o1777)
    expected = [str(tmp_path / "open/b"), str(tmp_path / "open/open/c")]
    monkeypatch.setattr(base, "WORLD_WRITABLE", [str(tmp_path)])
    assert sorted(base._files_of_user(uids.UID_RANGE[0])) == expected
    monkeypatch.setattr(base, "WORLD_WRITABLE", [])  # a file system in memory, which is not among the disks alone
    mounts = [SimpleNamespace(fstype="tmpfs", device="none", mountpoint=str(tmp_path))]
    monkeypatch.setattr(base.psutil, "disk_partitions", lambda all=False: mounts if all else [])
    assert sorted(base._files_of_user(uids.UID_RANGE[0])) == expected


# --- what a worker sees


def test_a_worker_sees_the_package_and_its_own_side_of_the_grader_alone(boxed, start):
    worker = start(
        boxed,
        """
import importlib, site
def has(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
own = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "usr", "lib")]
masters = [os.path.join(folder, name) for top in own for folder, _, names in os.walk(top) for name in names
           if name in ("hidden.py", "mistakes.py", "exercise.md")]
network = [line.partition(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line]
names = "torch", "llm_anatomy", "llm_grader.worker", "bookbinder", "llm_grader.key"
answer([network, missing, [has(name) for name in names], masters,
        sorted(os.listdir("/dev")), os.path.exists("/etc/passwd"), os.listdir(os.path.dirname(__file__))])
""",
        classrun.LIMITS,  # PyTorch for GPUs needs more than the limits above
    )
    network, missing, imports, masters, devices, accounts, own = hear(worker)
    assert network == ["lo"]
    assert missing == ""
    assert imports == [True, True, True, False, False]
    assert masters == []
    assert devices == ["full", "null", "random", "shm", "urandom", "zero"]
    assert not accounts
    assert {"llm_grader", "llm_anatomy"} == {name for name in own if not name.startswith("program")}


def test_what_lies_below_the_writable_folder_is_seen_as_well(boxed, start, monkeypatch):
    """As a clone in /tmp does, with its Python."""
    with folder_in("/tmp") as folder:
        Path(folder, "clone").mkdir()
        Path(folder, "clone", "python").touch()
        Path(folder).chmod(0o755)
        shown = [*environment.readable_paths(), Path(folder, "clone")]
        monkeypatch.setattr(bubblewrap, "readable_paths", lambda: shown)
        # files under names of their own: anything may lie in /tmp, this repository under any name as well
        code = f"""
def writes(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True
clone = {folder + "/clone"!r}
answer([os.listdir(clone), writes(clone + "/written"), writes({folder + "-written"!r})])
"""
        assert hear(start(boxed, code)) == [["python"], False, True]


@pytest.mark.parametrize("below", ["/tmp", "/dev/shm", "/var/tmp"])
def test_a_clone_may_lie_anywhere_and_be_reached_through_links(below, kind, another_grader, tmp_path):
    """Its worker finds Python and its packages, writes in its folder, and sees nothing else of the clone."""
    with folder_in(below, "Büro 1 ") as folder:
        Path(folder).chmod(0o755)
        clone, link, home = Path(folder, "Übung & Prüfung"), Path(folder, "link"), Path(sys.executable).resolve().parent
        packages = Path(sysconfig.get_path("purelib"))
        made = clone / ".venv" / packages.relative_to(sys.prefix)
        made.parent.mkdir(parents=True)
        made.symlink_to(packages)
        (clone / ".venv" / "bin").mkdir()
        (clone / ".venv" / "bin" / "python").symlink_to(
            f"../../../base/{home.name}/{Path(sys.executable).resolve().name}"
        )
        (clone / ".venv" / "pyvenv.cfg").write_text(f"home = {folder}/base/{home.name}\n", encoding="utf-8")
        (clone / "key").write_text("")
        Path(folder, "base").symlink_to(home.parent)
        link.symlink_to(clone.name)
        code = f"""
import tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x")
def exists(path):
    try:
        return bool(os.open(path, os.O_RDONLY))
    except OSError:
        return False
answer([missing, sys.prefix, exists({f"{link}/key"!r}), exists({f"{clone}/key"!r})])
"""
        grader = another_grader(kind, program(tmp_path, code), link / ".venv" / "bin" / "python")
        answer = grader.communicate()[0]
        hidden = kind is not SetuidSandbox  # which shows what every user may read
        assert answer == f"{['', f'{link}/.venv', not hidden, not hidden]}\n"


def test_where_workers_cannot_enter_the_folder_for_temporary_files_they_get_another(tmp_path, monkeypatch):
    """As where each user has a folder of his own below /tmp: root's is closed to the users under which workers run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "own"))
    (tmp_path / "own").mkdir(mode=0o700)
    assert temporary_folder() == (tmp_path / "own" if os.geteuid() else Path("/tmp"))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all:
        Path(open_to_all).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", open_to_all)
        assert temporary_folder() == Path(open_to_all)


def test_a_worker_does_not_get_the_graders_environment(kind, start, monkeypatch):
    monkeypatch.setenv("SECRET", "key")
    found = hear(start(kind(), "answer(dict(os.environ))"))
    assert "key" not in found.values()
    assert found["OMP_NUM_THREADS"] == "1"
    assert found["HOME"] == found["TMPDIR"]


def test_a_worker_can_write_in_its_folder_and_gets_numbers_back_and_forth(kind, start):
    worker = start(
        kind(),
        """
import tempfile
with tempfile.NamedTemporaryFile("w") as file:
    file.write("x")
while True:
    wire.send(to, wire.receive(source))
""",
    )
    for number in (1, 2):
        wire.send(worker.request_fd, number)
        assert hear(worker) == number


# --- the end


def test_the_end_says_why(kind, start):
    running, ended = start(kind(), "answer(1)"), start(kind(), "")
    hear(running)
    closed(ended)
    assert [running.stop(), running.stop(), ended.stop()] == ["", "", "ended"]


def test_a_worker_that_somebody_kills_was_killed(kind, start):
    """As the kernel does where the machine runs out of memory, also to the worker's first process alone."""
    inside, outside = start(kind(), "os.kill(os.getpid(), 9)"), start(kind(), "answer(1)")
    closed(inside)
    hear(outside)
    os.kill(outside._process.pid, signal.SIGKILL)
    closed(outside)
    assert [inside.stop(), outside.stop()] == ["killed", "killed"]


BURN = """
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""


def test_cpu_time_counts_children_that_have_ended_and_their_orphans(kind, start, grouping):
    code = """
wire.send(to, 1)
for _ in range(4):
    pid = os.fork()
    if not pid:
        if not os.fork():
            burn(0.25)
            os._exit(0)
        os.wait()
        os._exit(0)
    os.waitpid(pid, 0)
answer(2)
"""
    worker = start(kind(), BURN + code)
    hear(worker)
    before = worker.cpu_seconds()
    hear(worker)
    assert 0.9 < worker.cpu_seconds() - before < 2
    assert worker.stop() == ""
    assert worker.cpu_seconds() >= before


@pytest.mark.parametrize("nobody_waits", [False, True])
def test_a_limit_of_cpu_time_holds_for_all_processes_together(nobody_waits, kind, start, grouping):
    """Of 200 processes that work for 0.1 seconds each, no one is over the limit."""
    code = """
import signal
if NOBODY_WAITS:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
answer(1)
for _ in range(200):
    if not os.fork():
        burn(0.1)
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
answer(2)
"""
    worker = start(kind(), BURN + code.replace("NOBODY_WAITS", str(nobody_waits)))
    hear(worker)
    worker.limit_cpu(0.6)
    wire.send(worker.request_fd, 1)
    closed(worker)
    assert worker.stop() == "cpu"


def test_a_worker_within_its_cpu_time_goes_on(kind, start):
    worker = start(kind(), BURN + "burn(0.3)\nanswer(1)\ntime.sleep(0.3)\nanswer(2)")
    worker.limit_cpu(60.0)
    assert hear(worker) == 1
    worker.limit_cpu(0.25)  # from now on
    wire.send(worker.request_fd, 1)
    assert hear(worker) == 2
    assert worker.stop() == ""


def test_as_many_workers_fit_as_there_are_cpus_and_memory(monkeypatch):
    monkeypatch.setattr(base, "cpus_for_this_process", lambda: 8)
    monkeypatch.setattr(base, "memory_for_this_process", lambda: 5 * 1024 * MIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Namespace(available=10**12))
    assert workers_that_fit(replace(LIMITS, memory=1024 * MIB)) == 4
    assert workers_that_fit(replace(LIMITS, memory=64 * MIB)) == 8
    assert workers_that_fit(replace(LIMITS, memory=16 * 1024 * MIB)) == 1


def test_a_worker_that_has_hung_up_has_ended(boxed, start):
    worker = start(boxed, "os.close(to); time.sleep(60)")
    closed(worker)
    assert worker.stop() == "ended"


def test_memory_is_summed_over_processes_and_shared_pages_count_once(kind, start, grouping):
    code = """
shared = os.urandom(60 * 2**20)
for _ in range(6):
    if not os.fork():
        {grow}
        time.sleep(60)
        os._exit(0)
{then}
"""
    modest = start(kind(), code.format(grow="pass", then="time.sleep(0.5); answer(1)"))
    greedy = start(kind(), code.format(grow="own = os.urandom(60 * 2**20)", then="time.sleep(60)"))
    assert hear(modest) == 1
    closed(greedy)
    assert [modest.stop(), greedy.stop()] == ["", "memory"]


def test_memory_is_seen_when_the_first_thread_has_gone(kind, start):
    worker = start(
        kind(),
        """
import ctypes, threading
def grow():
    time.sleep(0.3)
    kept = os.urandom(400 * 2**20)
    time.sleep(60)
threading.Thread(target=grow).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
""",
    )
    closed(worker)
    assert worker.stop() == "memory"


def test_what_was_forked_while_the_watchdog_killed_is_killed_as_well(kind, start, monkeypatch):
    signalled = []

    def miss_the_first_time(worker, members, number):
        if signalled:
            signal_them(worker, members, number)
        signalled.append(number)

    signal_them = Worker._signal
    monkeypatch.setattr(Worker, "_signal", miss_the_first_time)
    monkeypatch.setattr(cgroups, "_parents", list)
    worker = start(kind(), "kept = os.urandom(400 * 2**20); time.sleep(60)")
    closed(worker, 30)
    assert worker.stop() == "memory"


def test_what_outlives_the_first_process_is_killed(boxed, start):
    """As when the kernel kills that process alone, because a control group has no memory left."""

    class WithoutNamespace(type(boxed)):
        def command(self, *arguments):
            # also in its first session, by which what an ordinary user has left running is found
            return [word for word in super().command(*arguments) if word not in ("--unshare-pid", "--new-session")]

    worker = start(WithoutNamespace(), "if os.fork(): os.kill(os.getpid(), 9)\ntime.sleep(60)")
    closed(worker, 30)
    assert worker.stop() == "killed"


def test_what_sockets_hold_in_the_kernel_counts_as_memory(kind, start, grouping):
    """Of 24 processes, each is modest, and what they hold belongs to none of them."""
    code = """
import socket
for _ in range(23):
    if not os.fork():
        break
sockets = []
try:
    while True:
        sockets += socket.socketpair()
except OSError:
    pass
for each in sockets:
    each.setblocking(False)
    try:
        while True:
            each.send(bytes(2 ** 14))
    except OSError:
        pass
time.sleep(60)
"""
    worker = start(kind(), code)
    # in the second case, the kernel gave it no more
    soon(lambda: worker._exceeded == "memory" or worker._group.reached_limit())


def test_a_worker_is_the_first_to_go_when_memory_runs_out(kind, start):
    code = """
path, scores = "/proc/self/oom_score_adj", []
for score in ("0", "999", "-1000"):
    try:
        open(path, "w").write(score)
    except OSError:
        pass
    scores.append(int(open(path).read()))
answer(scores)
"""
    assert hear(start(kind(), code)) == [1000, 1000, 1000]


def test_event_loops_and_pipes_still_run(kind, start):
    code = """
import asyncio, subprocess, sys
async def work():
    await asyncio.sleep(0)
    return subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, text=True).stdout
answer(asyncio.run(work()))
"""
    assert hear(start(kind(), code)) == "2\n"


def test_control_groups_are_removed(boxed, start):
    if not cgroups._parents():
        pytest.skip("this process cannot create control groups")
    worker = start(boxed, "answer(1)")
    hear(worker)
    assert all(entry.read_text() for entry in worker._group.entries)
    worker.stop()
    assert not any(entry.exists() for entry in worker._group.entries)


def test_files_in_memory_count_as_memory(boxed, start):
    limits = Limits(memory=128 * MIB, address_space=2048 * MIB, processes=32, open_files=128, disk=512 * MIB)
    worker = start(boxed, "open('file', 'wb').write(bytes(200 * 2**20)); answer(1)", limits)
    with pytest.raises(AssertionError, match="the other side has closed the pipe"):
        for _ in range(2):  # the answer may come before the watchdog
            hear(worker)
    assert worker.stop() == "memory"


NOBODYS_UID = 60_990
"""Outside of the range from which workers of other tests, which run at the same time, take theirs."""


def test_ended_processes_of_an_earlier_worker_cost_a_worker_no_processes(kind, start, monkeypatch):
    """The kernel counts them until somebody waits for them, which the first process of a container may never do."""
    if not kind().changes_user:
        pytest.skip("workers run under this user's id here")
    uid = NOBODYS_UID
    monkeypatch.setattr(cgroups, "_parents", list)
    ended = [subprocess.Popen(["true"], user=uid) for _ in range(LIMITS.processes)]
    soon(lambda: all(psutil.Process(each.pid).status() == psutil.STATUS_ZOMBIE for each in ended))
    try:
        monkeypatch.setattr(uids, "UID_RANGE", range(uid - 1, uid + 1))
        for _ in range(10):
            free = uids.Uid()
            free.release()
            assert free.number == uid - 1
        monkeypatch.setattr(uids, "UID_RANGE", range(uid, uid + 1))
        assert hear(start(kind(), "answer(os.fork() and os.wait()[1])")) == 0
    finally:
        for each in ended:
            each.wait()


def test_processes_that_multiply_and_leave_their_session_are_gone_after_the_end(kind, start):
    name = f"bomb-{os.getpid()}"
    worker = start(
        kind(),
        f"""
mark("{name}")
wire.send(to, 1)
while True:
    try:
        if not os.fork():
            os.setsid()
    except OSError:
        pass
""",
    )
    hear(worker)
    soon(lambda: len(named(name)) > 5)
    worker.stop()
    assert not named(name)


def test_the_end_frees_everything(kind, start, tmp_path):
    code = "os.makedirs('/'.join(['deep'] * 200)); os.symlink('/', 'link'); answer(os.getcwd())"
    start(kind(), "").stop()  # folders that are kept for the next worker
    before = own_files()
    worker = start(kind(), code)
    folder = hear(worker)
    if worker._uid:
        with open(uids.LOCK_FOLDER / str(worker._uid)) as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            worker.stop()
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    worker.stop()
    assert kind.has_namespaces or not os.path.exists(folder)
    assert own_files() == before


def test_no_two_workers_have_one_user_id(monkeypatch):
    if os.geteuid():
        pytest.skip("only root can give a worker another user id")
    monkeypatch.setattr(uids, "UID_RANGE", range(NOBODYS_UID, NOBODYS_UID + 1))
    uid = uids.Uid()
    with pytest.raises(Refusal, match=rf"All 1 user ids for workers \(from {NOBODYS_UID} on\) are in use"):
        uids.Uid()
    uid.release()
    uids.Uid().release()


def test_a_start_that_fails_frees_everything(boxed, monkeypatch):
    boxed.start(LIMITS).stop()
    before = own_files()
    monkeypatch.setattr(Worker, "_entry", lambda _: ["/nonexistent"])
    with pytest.raises(FileNotFoundError):
        boxed.start(LIMITS)
    assert own_files() == before


def test_the_last_line_of_a_failure_is_kept_short_and_printable(kind, start):
    worker = start(kind(), r"os.write(2, b'early\n' + b'x' * 10000 + b'\n' + b'\x1b[31mlate\n\n')")
    closed(worker)
    assert worker.error_output() == "[31mlate"
    worker.stop()
    assert worker.error_output() == "[31mlate"
    worker = start(kind(), r"os.write(2, b'x' * 10000)")
    closed(worker)
    assert worker.error_output() == "x" * base.MAX_ERROR_OUTPUT


# --- several graders


GRADER = """
import sys
from pathlib import Path
from llm_grader import wire
from llm_grader.sandbox import Limits, base, bubblewrap, sandlock, setuid
kinds = {k.name: k for k in (bubblewrap.Bubblewrap, sandlock.Sandlock, setuid.SetuidSandbox)}
worker = kinds[sys.argv[1]]().start(Limits(*map(int, sys.argv[3].split(","))), Path(sys.argv[2]))
print(wire.receive(worker.reply_fd), flush=True)
for line in sys.stdin:
    wire.send(worker.request_fd, line)
    print(wire.receive(worker.reply_fd), flush=True)
worker.stop()
"""


@pytest.fixture
def another_grader(popen):
    """Starts another process that runs a worker."""

    def another_grader(kind, path, python=sys.executable):
        limits = ",".join(str(value) for value in vars(LIMITS).values())
        return popen(
            [python, "-c", GRADER, kind.name, str(path), limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )

    return another_grader


ECHO = """
mark("{name}")
wire.send(to, os.getuid())
while True:
    wire.send(to, wire.receive(source))
"""


def test_graders_that_run_at_once_do_not_touch_each_others_workers(kind, start, another_grader, tmp_path):
    grader = another_grader(kind, program(tmp_path, ECHO.format(name="other")))
    theirs = int(grader.stdout.readline())
    worker = start(kind(), ECHO.format(name="ours"))
    assert (hear(worker) != theirs) or not kind().changes_user
    worker.stop()
    print("still there", file=grader.stdin, flush=True)
    assert grader.stdout.readline() == "still there\n"
    grader.stdin.close()
    assert grader.wait(60) == 0


def test_a_grader_that_is_killed_takes_its_worker_along(kind, another_grader, tmp_path):
    name = f"orphan-{os.getpid()}"
    code = f"mark('{name}')\nwire.send(to, 1)\nwhile True: pass"
    grader = another_grader(kind, program(tmp_path, code))
    grader.stdout.readline()
    assert named(name)
    os.kill(grader.pid, signal.SIGKILL)
    grader.wait()
    soon(lambda: not named(name))


# --- the choice


def test_the_choice_is_the_first_that_works(boxed, private):
    chosen, findings = choose([private])
    assert chosen.name == findings[-1].sandbox
    assert broken(finding for finding in findings if finding.sandbox == chosen.name) <= chosen.known_gaps


def test_where_none_works_the_grader_refuses_and_says_why(private, monkeypatch):
    monkeypatch.setattr(Bubblewrap, "unavailable_reason", lambda _: "there is no bwrap")
    monkeypatch.setattr(Sandlock, "unavailable_reason", lambda _: "there is no sandlock")
    monkeypatch.setattr(SetuidSandbox, "unavailable_reason", lambda _: "there is no root")
    with pytest.raises(Refusal, match="there is no bwrap.*there is no sandlock.*there is no root"):
        choose([private])
    chosen, findings = choose([private], unsafe=True)
    assert isinstance(chosen, Unconfined)
    assert not any(finding.blocked for finding in findings)
    with pytest.raises(Refusal, match="There is no sandbox 'chroot'; the sandboxes are bubblewrap, sandlock, setuid"):
        choose([private], "chroot")


def test_without_a_sandbox_workers_still_run_and_end(start):
    worker = start(Unconfined(), "answer(1)")
    assert hear(worker) == 1
    assert worker.stop() == ""


# --- another environment: a Python that everyone can read, as root and as an ordinary user


@pytest.mark.corpus  # slow; run by .ci/run
@pytest.mark.parametrize("user", ["root", "anyone"])
def test_the_same_where_everyone_can_read_python(user):
    kinds = "sandlock or setuid" if user == "root" else "bubblewrap or sandlock"
    assert "cannot be tried" not in run_tests(["-k", kinds, __file__], user)
