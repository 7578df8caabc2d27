"""A process without a network reaches itself and nothing else."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from patchkit.errors import ToolMissing
from patchkit.tools import isolation
from patchkit.tools.process import run_process

CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).close()"
TALK = """
import socket, threading
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "localhost")):
    server = socket.create_server((host, 0), family=family)
    threading.Thread(target=lambda: server.accept()[0].sendall(b"hello")).start()
    with socket.create_connection(server.getsockname()) as client:
        assert client.recv(5) == b"hello"
print(*(name for _, name in socket.if_nameindex()))
"""


def test_a_server_of_the_machine_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", CONNECT, str(server.getsockname()[1])]
        assert run_process(command).exit_code == 0
        cut_off = run_process(isolation.without_network(command))
    assert cut_off.exit_code == 1
    assert "ConnectionRefusedError" in cut_off.complaint


def test_the_loopback_works_inside_and_nothing_else_is_there() -> None:
    done = run_process(isolation.without_network([sys.executable, "-c", TALK]))
    assert (done.exit_code, done.text.split()) == (0, ["lo"]), done.complaint


def test_ids_exit_code_and_process_are_the_programs() -> None:
    code = "import os, sys; print(os.getuid(), os.getgid(), os.getpgid(0) == os.getpid()); sys.exit(7)"
    done = run_process(isolation.without_network([sys.executable, "-c", code]))
    assert (done.exit_code, done.text.split()) == (7, [str(os.getuid()), str(os.getgid()), "True"])


def test_a_program_that_is_not_there_and_a_kernel_that_refuses_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_process(isolation.without_network(["/no/such/program"]))
    assert (done.exit_code, "No such file" in done.complaint) == (126, True)

    def refuse(_flags: int) -> None:
        raise PermissionError(1, "Operation not permitted", "unshare")

    monkeypatch.setattr(isolation, "_unshare", refuse)
    assert isolation.main(["true"]) == 126
    assert "cannot leave the network: [Errno 1]" in capsys.readouterr().err
    isolation.check_isolation()  # in a process of its own, so it works
    monkeypatch.setattr(isolation, "without_network", lambda _command: ("sh", "-c", "echo refused >&2; exit 126"))
    with pytest.raises(ToolMissing, match="network: none: this machine gives no network namespace: refused"):
        isolation.check_isolation()
