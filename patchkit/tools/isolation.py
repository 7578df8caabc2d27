"""Run a program without a network: in a namespace of its own, where nothing but the loopback is there.

No helper program and no privilege is needed, only a kernel that lets users make namespaces. This file is also a
script (standard library only): patchkit's own interpreter runs it in the new process, where it leaves the network and
becomes the program, so process, group and exit code are the program's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
REQUEST = "16sh22x"  # struct ifreq: a name, flags, and the rest of its union
FAILED = 126  # as a shell: found, and cannot be run


def without_network(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs another one with no network but a loopback of its own."""
    return (sys.executable, "-I", "-S", str(Path(__file__).absolute()), *command)


def check_isolation() -> None:
    """Raise `ToolMissing` where this machine does not let a process leave the network."""
    from patchkit.errors import ToolMissing  # here: the script must not need patchkit
    from patchkit.tools.process import run_process

    done = run_process(without_network(()))
    if done.exit_code != 0:
        hint = (
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined), "
            "or say network: host"
        )
        raise ToolMissing(f"network: none: this machine gives no network namespace: {done.complaint}", hint)


def leave_network() -> None:
    """Take this process, which must have one thread, out of the machine's network. Raises `OSError`.

    Users need a user namespace for it, in which they keep their ids; root does without where there are none.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _unshare(CLONE_NEWUSER | CLONE_NEWNET)
    except OSError:
        if user != 0:
            raise
        _unshare(CLONE_NEWNET)
    else:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")  # the kernel asks for this before gid_map
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    _raise_loopback()


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "unshare")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack(REQUEST, b"lo", 0))
        flags = struct.unpack(REQUEST, answer)[1] | IFF_UP
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack(REQUEST, b"lo", flags))


def main(command: Sequence[str]) -> int:
    """Leave the network and become a program; return an exit code only where that fails, or none is named."""
    try:
        leave_network()
        if command:
            os.execvp(command[0], list(command))  # noqa: S606 - the program that was asked for, without a shell
    except OSError as error:
        sys.stderr.write(f"cannot leave the network: {error}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
