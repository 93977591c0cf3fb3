"""Two nodes: network namespaces connected by a veth, in a user namespace if that is permitted."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from support.processes.tessera_run import environment, tessera
from support.programs.verbs_tools import WITH_ITS_RUN

ADDRESSES = ("10.78.0.1", "10.78.0.2")
IPV6 = ("fd78::1", "fd78::2")
NAMES = ("wire_a", "wire_b")
PORT = 18515


def missing() -> str:
    """Return why namespaces cannot be used here; empty if they can."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            return f"no {tool}: apt-get install util-linux iproute2"
    probe = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"this kernel permits no namespaces: {probe.stderr}"


needs_namespaces = pytest.mark.skipif(bool(missing()), reason=f"NOT RUN: {missing()}")


class Nodes:
    """The namespaces, from ``__enter__`` to ``__exit__``; their interfaces have an MTU of ``mtu``
    bytes.

    The nodes' homes have short paths: if a fabric's socket path did not fit below its node's
    home, it would be in a folder that all nodes share, and one node would find the other's
    fabric.
    """

    def __init__(self, mtu: int = 9000) -> None:
        self._mtu = mtu
        self._holders: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="nodes", dir="/tmp")
        self.homes = [Path(self._folder.name) / name for name in NAMES]

    def __enter__(self) -> Self:
        for home in self.homes:
            home.mkdir()
        self._hold(["unshare", "-Urn"])
        self._hold([*self.inside(0), "unshare", "-n"])
        self._join()
        for node, (name, address) in enumerate(zip(NAMES, ADDRESSES, strict=True)):
            self._do(node, "ip", "addr", "add", f"{address}/24", "dev", name)
            self._do(node, "ip", "addr", "add", f"{IPV6[node]}/64", "dev", name, "nodad")
            self._do(node, "ip", "link", "set", name, "up")
            self._do(node, "ip", "link", "set", "lo", "up")
        return self

    def _join(self) -> None:
        """Connect the two nodes."""
        holder = str(self._holders[1].pid)
        pair = ("ip", "link", "add", NAMES[0], "mtu", str(self._mtu), "type", "veth")
        self._do(0, *pair, "peer", "name", NAMES[1], "mtu", str(self._mtu), "netns", holder)

    def __exit__(self, *_: object) -> None:
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        self._folder.cleanup()

    def inside(self, node: int) -> list[str]:
        """Return the command prefix that runs a command in a node's network namespace."""
        pid = str(self._holders[node].pid)
        return ["nsenter", "--preserve-credentials", "-U", "-n", "-t", pid]

    def run(self, node: int, *command: str, options: Sequence[str] = ()) -> list[str]:
        """Return the argument vector of a program with an HCA on that node's interface."""
        wire = ("run", "--hca", "--wire", NAMES[node], *options)
        return [*self.inside(node), *tessera(*wire, "--", *WITH_ITS_RUN, *command)]

    def play(
        self, *command: str, options: Sequence[str] = (), seconds: float = 90
    ) -> tuple[str, str]:
        """Run a program as server and client on the two nodes; return the outputs of both.

        Both must end with status 0.
        """
        server = self.start(1, *command, options=options)
        try:
            self.until_listening(server, seconds)
            client = self.start(0, *command, ADDRESSES[1], options=options)
            try:
                first, _ = client.communicate(timeout=seconds)
            finally:
                client.kill()
                client.wait()
            if client.returncode != 0:
                server.terminate()
            second, _ = server.communicate(timeout=seconds)
        finally:
            server.kill()
            server.wait()
        assert (client.returncode, server.returncode) == (0, 0), f"{first}\n--\n{second}"
        return first, second

    def start(
        self, node: int, *command: str, options: Sequence[str] = ()
    ) -> "subprocess.Popen[str]":
        """Start a program with an HCA on a node."""
        return subprocess.Popen(
            self.run(node, *command, options=options),
            env=environment(self.homes[node]),
            cwd=self.homes[node],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until_listening(
        self, server: "subprocess.Popen[str]", seconds: float, port: int = PORT
    ) -> None:
        """Wait until a process on node 1 listens for the exchange of addresses."""
        end = time.monotonic() + seconds
        table = Path(f"/proc/{self._holders[1].pid}/net")
        while server.poll() is None and time.monotonic() < end:
            text = (table / "tcp").read_text() + (table / "tcp6").read_text()
            rows = [line.split() for line in text.splitlines()]
            if any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows):
                return  # other states are connections of an earlier program
            time.sleep(0.02)
        raise AssertionError(f"no process listens: {server.poll()}")

    def _hold(self, how: Sequence[str]) -> None:
        holder = subprocess.Popen(
            [*how, "sh", "-c", "echo ready; exec sleep 1000"], stdout=subprocess.PIPE
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"

    def _do(self, node: int, *command: str) -> None:
        subprocess.run([*self.inside(node), *command], check=True)


class BridgedNodes(Nodes):
    """Two nodes joined by a bridge in a separate namespace, as between machines."""

    def _join(self) -> None:
        self._hold([*self.inside(0), "unshare", "-n"])
        bridge = 2
        self._do(bridge, "ip", "link", "add", "bridge", "type", "bridge")
        for node, name in enumerate(NAMES):
            end = ("type", "veth", "peer", "name", f"port_{node}", "mtu", str(self._mtu))
            there = ("netns", str(self._holders[bridge].pid))
            self._do(node, "ip", "link", "add", name, "mtu", str(self._mtu), *end, *there)
            self._do(bridge, "ip", "link", "set", f"port_{node}", "master", "bridge", "up")
        self._do(bridge, "ip", "link", "set", "bridge", "mtu", str(self._mtu), "up")
