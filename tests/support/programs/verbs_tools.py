"""Debian's unmodified RDMA programs, and the ``tessera run --hca`` commands that start them."""

import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.kept import native_parts
from support.processes.tessera_run import environment, tessera
from support.programs import c_programs
from vgpu_sim.native import build, catalogue

WITH_ITS_RUN = ("setpriv", "--pdeathsig", "KILL")
"""Prefix of a command: the program ends with its run, so that it does not keep polling when a test
kills the run.
"""
INSTALL = "apt-get install ibverbs-utils infiniband-diags perftest rdma-core"


def skip_without(program: str) -> pytest.MarkDecorator:
    """Skip the test with a message if a program is not installed."""
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"NOT RUN: no {program}: {INSTALL}")


def run_hca(temporary: Path, *command: str, fabric: str | None = None) -> list[str]:
    """Return the argument vector of one ``tessera run --hca``."""
    named = ("--fabric", fabric) if fabric else ()
    return tessera("run", "--hca", *named, "--", *WITH_ITS_RUN, *command)


def alone(temporary: Path, *command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program on a separate fabric to its end."""
    return subprocess.run(
        run_hca(temporary, *command),
        env=environment(temporary),
        cwd=temporary,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def free_port() -> int:
    """Return a free TCP port outside the range that the kernel assigns."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = 10_000 + secrets.randbelow(max(least - 10_000, 10_000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port


def listens(port: int) -> bool:
    """Return whether a process listens on a port; a test connection would be mistaken for the
    peer's.
    """
    lines = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
    ]
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


def two_runs(temporary: Path, *command: str, seconds: float = 90) -> tuple[str, str]:
    """Run a program as server and client, in two runs on one fabric; return the outputs of both.

    Both must end with status 0.
    """
    port = free_port()
    fabric = f"t{port}"
    full = (*command, "-p", str(port))
    server = subprocess.Popen(
        run_hca(temporary, *full, fabric=fabric),
        env=environment(temporary),
        cwd=temporary,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        end = time.monotonic() + seconds
        while not listens(port) and server.poll() is None:
            assert time.monotonic() < end, "no process listens"
            time.sleep(0.02)
        client = subprocess.run(
            run_hca(temporary, *full, "127.0.0.1", fabric=fabric),
            env=environment(temporary),
            cwd=temporary,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        said, _ = server.communicate(timeout=seconds)
    finally:
        server.kill()
        server.wait()
    assert (client.returncode, server.returncode) == (0, 0), f"{client.stdout}\n--\n{said}"
    return client.stdout, said


def hcad_of(temporary: Path) -> int:
    """Return the process that serves the only fabric below a folder; never 0, which would signal
    the caller.
    """
    found = find_hcad(temporary)
    assert found, "no hcad serves there"
    return found


def find_hcad(temporary: Path) -> int:
    """Return the process that serves the only fabric below a folder, or 0."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"hca.daemon" in words and any(w.startswith(bytes(temporary)) for w in words):
            return int(entry.name)
    return 0


def run_verbs_program(
    temporary: Path, name: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Compile one of the ABI tests' programs with the library's own types, and run it to its end."""
    native_parts.build_once("libibverbs.so.1", "libtessera_hca.so")
    folder = catalogue.RDMA_CLIENTS / "libibverbs"
    program = c_programs.compile_program(
        *(temporary, name, f"-L{build.LIBRARIES / catalogue.RDMA}", "-libverbs"),
        *(f"-I{folder}", f"-I{catalogue.GENERATED / folder.name}", f"-I{catalogue.INCLUDE}"),
    )
    return subprocess.run(
        run_hca(temporary, str(program), *arguments),
        env=environment(temporary),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def compile_with_librdmacm(temporary: Path, name: str) -> Path:
    """Compile one of the ABI tests' programs with the libraries' own types; return its path."""
    native_parts.build_once("libibverbs.so.1", "librdmacm.so.1", "libtessera_hca.so")
    libraries = build.LIBRARIES / catalogue.RDMA
    return c_programs.compile_program(
        *(temporary, name, f"-L{libraries}", "-l:librdmacm.so.1", "-l:libibverbs.so.1"),
        *(f"-I{catalogue.RDMA_CLIENTS / 'librdmacm'}", f"-I{catalogue.INCLUDE}"),
    )
