"""Set limits and a system call filter that this process and its children can never lift, before students' code runs."""

import contextlib
import ctypes
import ctypes.util
import errno
import os
import resource
import socket
import struct
import termios
from collections.abc import Mapping

NO_NEW_PRIVILEGES, SET_PIPE_SIZE = 38, 1031
NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
# shared memory and messages that outlive a process; access to other processes; file systems; the kernel; memory that is
# held by a pipe or by the kernel alone
BLOCKED_SYSCALLS = """
    memfd_create memfd_secret shmget shmat shmctl semget semop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_notify mq_timedsend mq_timedreceive
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
    unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    add_key request_key keyctl bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl syslog
    settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname iopl ioperm vhangup
    name_to_handle_at open_by_handle_at lookup_dcookie fanotify_init
    vmsplice splice tee io_setup
"""


# Landlock: its system calls, its version from which each right exists, and the rights to change files
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE = 1 << 1
CHANGE_RIGHTS = {1: WRITE_FILE | sum(1 << bit for bit in range(4, 13)), 2: 1 << 13, 3: 1 << 14}


def confine(limits: Mapping[str, int]) -> str:
    """Confine this process for good.

    Args:
        limits: ``address_space`` and ``disk`` (for each file) in bytes, ``processes`` and ``open_files``.

    Returns:
        A sentence that says what could not be set and why, or an empty string.
    """
    for name, value in (
        (resource.RLIMIT_AS, limits["address_space"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(name)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(name, (value, value))
    try:
        if ctypes.CDLL(None, use_errno=True).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            return f"no_new_privs is refused: {os.strerror(ctypes.get_errno())}"
        _protect_files()
        _load_syscall_filter()
    except ImportError:
        return "pyseccomp is not installed"
    except (OSError, RuntimeError, AttributeError) as e:
        return f"the worker cannot be confined: {e}"
    return ""


def _protect_files() -> None:
    """Forbid changes of files outside the current folder, where the kernel has Landlock."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    rights = sum(each for since, each in CHANGE_RIGHTS.items() if version >= since)
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(ctypes.c_uint64(rights)), 8, 0)
    for path, allowed in ((".", rights), (os.devnull, WRITE_FILE)):
        fd = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", allowed, fd)
        if libc.syscall(ADD_RULE, ruleset, 1, rule, 0):
            raise OSError(ctypes.get_errno(), "Landlock refuses a rule")
        os.close(fd)
    if libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock is refused")
    os.close(ruleset)


def _load_syscall_filter() -> None:
    """Load the system call filter: blocked calls fail with "operation not permitted"."""
    # ctypes would search for the library with programs that a worker cannot see
    find, ctypes.util.find_library = ctypes.util.find_library, {"seccomp": "libseccomp.so.2"}.get
    try:
        import pyseccomp
    finally:
        ctypes.util.find_library = find

    refuse = pyseccomp.ERRNO(errno.EPERM)
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in BLOCKED_SYSCALLS.split():
        with contextlib.suppress(OSError, ValueError):  # unknown on this architecture or to an older library
            rules.add_rule(refuse, name)
    # also local sockets, which reach services by path and by abstract name; pairs of sockets, of which event loops need
    # one, are harmless, and so are pipes, as long as their buffers in the kernel cannot grow
    rules.add_rule(refuse, "socket")
    rules.add_rule(refuse, "setsockopt")
    rules.add_rule(refuse, "fcntl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, SET_PIPE_SIZE))
    rules.add_rule(refuse, "socketpair", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))
    for flag in NAMESPACES:
        rules.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # a filter cannot see the flags of clone3, which lie in memory; C libraries then use clone
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(refuse, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, termios.TIOCSTI))
    rules.set_attr(pyseccomp.Attr.CTL_TSYNC, 1)  # also confine existing threads
    rules.load()
