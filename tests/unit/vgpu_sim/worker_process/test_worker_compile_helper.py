"""An abort of LLVM does not end a context: code is generated in other processes."""

import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.worker_client import Client, Zygote, running_client, running_zygote
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.system import processes
from vgpu_sim.worker.compiling import children

# A zygote whose LLVM aborts, as a defect would, on kernels that contain certain constants.
FIRST_PLAN_ABORTS, EVERY_PLAN_ABORTS, FIRST_PLAN_NEVER_ENDS = range(19088743, 19088746)
FRAIL = f"""
import os
from vgpu_sim import zygote
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.worker.compiling import children as compile_children
compile_children.MAX_CPU_SECONDS = 0.2
emit = llvm.object_code
def object_code(text, tier):
    if "{FIRST_PLAN_ABORTS}" in text and tier or "{EVERY_PLAN_ABORTS}" in text:
        os.write(2, b"LLVM ERROR: Cannot select: 0x7f5a0 = nonsense\\nand more")
        os.abort()
    while "{FIRST_PLAN_NEVER_ENDS}" in text and tier:
        pass
    return emit(text, tier)
llvm.object_code = object_code
zygote.main()
"""
COUNT = 64


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with running_zygote("-c", FRAIL) as zygote:
        yield zygote


def test_how_long_code_may_take_follows_from_the_request() -> None:
    """LLVM can loop forever over forty instructions; fifty megabytes may take a long time."""
    small, large = children.allowed_seconds(4000), children.allowed_seconds(10**7)
    assert small < 6
    assert 20 * small < 2 * large
    assert children.allowed_seconds(1 << 40) == children.MAX_CPU_SECONDS


def helper_of(client: Client) -> int:
    (helper,) = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    return int(helper)


def plus(constant: int) -> bytes:
    """A kernel ``plus`` that stores its thread's number plus a constant."""
    return f"""{ptx_kernels.HEADER}
        .visible .entry plus(.param .u64 output)
        {{
            .reg .b32 %r<2>;
            .reg .b64 %d;
            ld.param.u64 %d, [output];
            mov.u32 %r0, %tid.x;
            mad.wide.u32 %d, %r0, 4, %d;
            add.u32 %r1, %r0, {constant};
            st.global.u32 [%d], %r1;
            ret;
        }}""".encode()


def launch(client: Client, ptx: bytes, kernel: str) -> tuple[np.ndarray, int]:
    """Launch one block on zeroes; return where the results will be, and the stream's value."""
    module = client.load(ptx)
    assert (module.status, module.log) == (0, "")
    memory = client.allocate(8 * COUNT)
    parameters = struct.pack("<Q", memory.address)
    handle = module.functions[kernel].kernel
    value = client.launch(handle, (1, 1, 1), (COUNT, 1, 1), parameters)
    return np.frombuffer(memory.alias, dtype=np.uint64)[:COUNT], value


def test_a_kernel_that_llvm_aborts_on_runs_lane_by_lane() -> None:
    """LLVM 22's x86 back end cannot select the lane group's code on AVX-512."""
    with running_zygote() as zygote, running_client(zygote, backend="jit") as client:
        results, value = launch(client, ptx_kernels.WIDENED.encode(), "widened")
        bits = np.arange(COUNT, dtype=np.uint64)
        results[:] = bits
        client.wait(0, value)
        half = int(np.float32(0.5).view(np.uint32))
        expected = [7 + (n * half if n & 4 == 0 else 0) for n in range(COUNT)]
        assert results.tolist() == expected


@pytest.mark.parametrize("constant", [FIRST_PLAN_ABORTS, FIRST_PLAN_NEVER_ENDS])
def test_what_ends_the_first_attempt_leaves_a_second(zygote: Zygote, constant: int) -> None:
    with running_client(zygote, backend="jit") as client:
        for _ in range(2):  # and the context keeps working
            results, value = launch(client, plus(constant), "plus")
            client.wait(0, value)
            expected = np.arange(constant, constant + COUNT, dtype=np.uint32)
            assert results.view(np.uint32)[:COUNT].tolist() == expected.tolist()


def test_an_error_of_every_attempt_is_reported(zygote: Zygote) -> None:
    """The launch fails; the worker reports the attempts, and ends as after any fault."""
    with running_client(zygote, backend="jit") as client:
        launch(client, plus(EVERY_PLAN_ABORTS), "plus")
        page = client.wait_for_error()
        assert page.error == CudaError.LAUNCH_FAILED
        assert (page.fault.kind, page.fault.kernel_name) == (FaultKind.INTERNAL, b"plus")
        said = page.fault.message.decode()
        assert re.search(
            r"plus, Plan\(width=.*\), block \(64, 1, 1\): code generation was ended by SIG.*:"
            r" LLVM ERROR: Cannot select: 0x.. = nonsense; compiling it lane by lane failed",
            said,
        )
        assert client.gpud.event("fault")["kernel"] == "plus"
        status = os.waitstatus_to_exitcode(zygote.exit_status(client.pid))
        assert status == spawn.FAULTED_STATUS


@pytest.mark.parametrize(
    "trial",
    [
        "too_much",
        "side_by_side",
        "kept_ready",
        "warm_at_second",
        "left_off",
        "ended_early",
        "no_memory",
    ],
)
def test_a_helper_without_a_worker(trial: str) -> None:
    """The trials run in separate processes, which are single-threaded when they fork."""
    script = Path(__file__).parents[3] / "support" / "scripts" / "helper_trials.py"
    command = [sys.executable, str(script), trial]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_its_helper_a_worker_says_so(zygote: Zygote) -> None:
    with running_client(zygote, backend="jit") as client:
        os.kill(helper_of(client), signal.SIGKILL)
        launch(client, plus(1), "plus")
        page = client.wait_for_error()
        assert page.error == CudaError.LAUNCH_FAILED
        assert b"the compile helper has ended" in page.fault.message


def test_a_helper_holds_nothing_of_its_workers(zygote: Zygote) -> None:
    with running_client(zygote, backend="jit") as client:
        _, value = launch(client, plus(1), "plus")
        client.wait(0, value)
        helper = Path(f"/proc/{helper_of(client)}")
        opened = sorted(os.readlink(entry) for entry in (helper / "fd").iterdir())
        words, own = "/memfd:tessera-last-words (deleted)", {"anon_inode:[eventfd]"}
        own |= {f"/memfd:tessera-{name} (deleted)" for name in ("code", "request", "last-words")}
        assert [os.readlink(helper / "fd" / str(n)) for n in range(3)] == [
            *["/dev/null"] * 2,
            words,
        ]
        # Its end of the socket to the worker, and the pair that reports children's ends.
        others = sorted(name for name in opened if name not in own and name != "/dev/null")
        assert [name.split(":")[0] for name in others] == ["socket"] * 3
        maps = (helper / "maps").read_text()
        assert "tessera-worker" in Path(f"/proc/{client.pid}/maps").read_text()
        assert "memfd:" not in maps
        status = dict(
            line.split(":", 1) for line in (helper / "status").read_text().splitlines() if line
        )
        worker = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{client.pid}/status").read_text().splitlines()
        )
        for wall in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd", "Uid"):
            assert status[wall] == worker[wall], wall
        for namespace in ("user", "mnt", "net", "ipc"):
            of_worker = os.readlink(f"/proc/{client.pid}/ns/{namespace}")
            assert os.readlink(helper / "ns" / namespace) == of_worker


@pytest.mark.parametrize("sandbox", [True, False])
def test_a_helper_ends_with_its_worker_and_is_waited_for(zygote: Zygote, sandbox: bool) -> None:
    with running_client(zygote, backend="jit", sandbox=sandbox) as client:
        assert client.ready.status == 0
        helper = helper_of(client)
        os.kill(client.pid, signal.SIGKILL)
        zygote.exit_status(client.pid)
        zygote.exit_status(helper)
        assert processes.open_process(helper) is None


def test_an_interpreting_worker_has_none(zygote: Zygote) -> None:
    with running_client(zygote, backend="interp") as client:
        assert client.ready.status == 0
        assert not Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text()
