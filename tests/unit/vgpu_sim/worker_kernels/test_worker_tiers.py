"""A first launch begins in narrow code; better code replaces it, or fails to, at no cost.

The compiler of better code waits for a file if a test requires it, and ends as the test chooses.
"""

import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.worker_client import Client, Zygote, running_client, running_zygote

COUNT = 64
ROUNDS = 30
# Better code of a kernel: the constant selects its compiler's behaviour, once the file "gate"
# exists.
NOTHING, IS_KILLED, ABORTS = 0x1234567, 0x2234567, 0x3234567
GATED = """
import os, signal, time
from vgpu_sim import zygote
from vgpu_sim.worker.backends import jit
compile_kernel = jit._compile_kernel
def gated(request):
    while not os.path.exists({gate!r}):
        time.sleep(0.001)
    if ({killed}).to_bytes(4, "little") in request:
        os.kill(os.getpid(), signal.SIGKILL)
    if ({aborts}).to_bytes(4, "little") in request:
        os.abort()
    return compile_kernel(request)
jit._compile_kernel = gated
zygote.main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiers")


@pytest.fixture(scope="module")
def zygote(place: Path) -> Iterator[Zygote]:
    code = GATED.format(gate=str(place / "gate"), killed=IS_KILLED, aborts=ABORTS)
    with running_zygote("-c", code) as zygote:
        yield zygote


@pytest.fixture(autouse=True)
def gate(place: Path) -> Iterator[Path]:
    yield place / "gate"
    (place / "gate").unlink(missing_ok=True)


def rounds(constant: int) -> bytes:
    """Kernel ``rounds(output, flag)``: block 0 waits for the flag, all threads compute a little."""
    steps = "".join(
        f"xor.b32 %r1, %r1, {constant + n}; mul.lo.u32 %r1, %r1, 5;\n" for n in range(ROUNDS)
    )
    return f"""{ptx_kernels.HEADER}
        .visible .entry rounds(.param .u64 output, .param .u64 flag)
        {{
            .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<2>;
            ld.param.u64 %d0, [output];
            ld.param.u64 %d1, [flag];
            mov.u32 %r2, %ctaid.x;
            mov.u32 %r0, %tid.x;
            mad.lo.u32 %r1, %r2, {COUNT}, %r0;
            mad.wide.u32 %d0, %r1, 4, %d0;
            setp.ne.u32 %p, %r2, 0;
            @%p bra GO;
        POLL:
            ld.volatile.global.u32 %r3, [%d1];
            setp.eq.u32 %p, %r3, 0;
            @%p bra POLL;
        GO:
            {steps}
            st.global.u32 [%d0], %r1;
            ret;
        }}""".encode()


def expected_values(constant: int, blocks: int) -> list[int]:
    value = np.arange(blocks * COUNT, dtype=np.uint32)
    for n in range(ROUNDS):
        value = (value ^ np.uint32(constant + n)) * np.uint32(5)
    return value.tolist()


class Rounds:
    """The kernel in a context, with its memory."""

    def __init__(self, client: Client, constant: int) -> None:
        self.client, self.constant = client, constant
        module = client.load(rounds(constant))
        assert (module.status, module.log) == (0, "")
        self.kernel = module.functions["rounds"].kernel
        self.output, self.flag = client.allocate(1 << 20), client.allocate(4)

    def let_go(self) -> None:
        self.flag.alias[:4] = struct.pack("<I", 1)

    def launch(self, blocks: int = 16) -> tuple[int, int]:
        parameters = struct.pack("<QQ", self.output.address, self.flag.address)
        return blocks, self.client.launch(self.kernel, (blocks, 1, 1), (COUNT, 1, 1), parameters)

    def check(self, blocks: int, value: int) -> None:
        self.client.wait(0, value)
        found = np.frombuffer(self.output.alias, np.uint32)[: blocks * COUNT].tolist()
        self.output.alias[: 4 * blocks * COUNT] = bytes(4 * blocks * COUNT)
        assert found == expected_values(self.constant, blocks)


@contextlib.contextmanager
def open_client(zygote: Zygote, cache: Path, **changes: Any) -> Iterator[Client]:
    cache.mkdir(exist_ok=True)
    changes = {"sandbox": False, "report_usage": True, "threads": 2, "hot_kernel_ns": 0, **changes}
    with running_client(zygote, backend="jit", cache_dir=str(cache), **changes) as client:
        yield client


def until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def usage(client: Client) -> tuple[int, int, int]:
    """End a context; return how many kernels began in narrow code, how many got better code, and
    how many launches switched.
    """
    client.socket.close()
    said = client.gpud.event("usage")
    return said["provisional"], said["improved"], said["swapped"]


def best_of(cache: Path) -> list[Path]:
    return [path for path in cache.glob("*.object") if not path.name.endswith(".first.object")]


def first_of(cache: Path) -> list[Path]:
    return list(cache.glob("*.first.object"))


def test_better_code_takes_over_while_a_launch_runs(
    zygote: Zygote, gate: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with open_client(zygote, cache) as client:
        kernel = Rounds(client, NOTHING)
        launch = kernel.launch(blocks=2000)
        until(lambda: first_of(cache) != [])
        assert best_of(cache) == []
        gate.touch()
        until(lambda: best_of(cache) != [])  # block 0 polls in the narrow code meanwhile
        kernel.let_go()
        kernel.check(*launch)
        kernel.check(*kernel.launch())
        assert usage(client) == (1, 1, 1)
    (written,) = best_of(cache)
    before = written.stat()
    with open_client(zygote, cache) as client:
        again = Rounds(client, NOTHING)
        again.let_go()
        again.check(*again.launch())
        assert usage(client) == (0, 0, 0)
    after = best_of(cache)[0].stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_kernel_gets_better_code_when_its_launches_have_taken_long(
    zygote: Zygote, gate: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    gate.touch()
    with open_client(zygote, cache, hot_kernel_ns=10_000_000) as client:
        kernel = Rounds(client, NOTHING)
        kernel.let_go()
        kernel.check(*kernel.launch())
        time.sleep(0.1)  # several looks
        assert (len(first_of(cache)), best_of(cache)) == (1, [])

        def launch_until_better() -> bool:
            kernel.check(*kernel.launch(blocks=1000))
            return best_of(cache) != []

        until(launch_until_better)
        kernel.check(*kernel.launch())
        provisional, improved, _ = usage(client)
        assert (provisional, improved) == (1, 1)


def test_a_context_that_ends_before_leaves_no_process_and_the_first_code(
    zygote: Zygote, gate: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with open_client(zygote, cache) as client:
        kernel = Rounds(client, NOTHING)
        kernel.let_go()
        kernel.check(*kernel.launch())
        (helper,) = processes_below(client.pid)
        until(lambda: len(processes_below(helper)) > 0)  # its compiler, which waits at the gate
        children = processes_below(helper)
        assert usage(client) == (1, 0, 0)
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 0
        zygote.exit_status(helper)
        until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    assert (len(first_of(cache)), best_of(cache)) == (1, [])
    with open_client(zygote, cache) as client:  # begins in that code, and improves it
        stamp = first_of(cache)[0].stat().st_mtime_ns
        kernel = Rounds(client, NOTHING)
        kernel.let_go()
        kernel.check(*kernel.launch())
        gate.touch()
        until(lambda: best_of(cache) != [])
        kernel.check(*kernel.launch())
        assert usage(client) == (1, 1, 0)
        assert first_of(cache)[0].stat().st_mtime_ns == stamp


def processes_below(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("constant", "kept"), [(IS_KILLED, 0), (ABORTS, 1)])
def test_a_compiler_that_dies_costs_nothing(
    zygote: Zygote, gate: Path, tmp_path: Path, constant: int, kept: int
) -> None:
    """An abort would recur, so the first code is kept as the best; other failures may be
    retried.
    """
    cache = tmp_path / "cache"
    gate.touch()
    with open_client(zygote, cache) as client:
        kernel = Rounds(client, constant)
        kernel.let_go()
        for _ in range(3):
            kernel.check(*kernel.launch())
        (helper,) = processes_below(client.pid)
        other = Rounds(client, NOTHING)  # the helper still serves
        other.let_go()
        other.check(*other.launch())
        until(lambda: len(best_of(cache)) == kept + 1)
        assert processes_below(client.pid) == [helper]
        assert usage(client) == (2, 1, 0)
    assert len(first_of(cache)) == 2


def test_without_its_helper_a_context_goes_on_in_the_first_code(
    zygote: Zygote, tmp_path: Path
) -> None:
    with open_client(zygote, tmp_path / "cache") as client:
        kernel = Rounds(client, NOTHING)
        kernel.let_go()
        kernel.check(*kernel.launch())
        (helper,) = processes_below(client.pid)
        os.kill(helper, signal.SIGKILL)
        for _ in range(3):
            kernel.check(*kernel.launch())
        assert usage(client) == (1, 0, 0)


def test_better_code_is_compiled_in_the_sandbox_too(tmp_path: Path) -> None:
    """With the real filter, better code is compiled, transferred and cached."""
    cache = tmp_path / "cache"
    with running_zygote() as zygote, open_client(zygote, cache, sandbox=True) as client:
        kernel = Rounds(client, NOTHING)
        launch = kernel.launch()
        until(lambda: best_of(cache) != [])
        kernel.let_go()
        kernel.check(*launch)
        assert usage(client) == (1, 1, 1)
