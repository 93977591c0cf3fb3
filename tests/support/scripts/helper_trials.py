"""Trials of a compile helper without a worker: ``python helper_trials.py NAME``."""

import errno
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vgpu_sim.hal.compute.ports import EmitError
from vgpu_sim.system import calls
from vgpu_sim.worker import memory
from vgpu_sim.worker.compiling import compile_helper
from vgpu_sim.worker.compiling.compile_helper import CompileHelper


@contextmanager
def running_helper(
    emit: Callable[[bytes], bytes], warm_up: Callable[[], Iterator[None]] = lambda: iter(())
) -> Iterator[CompileHelper]:
    """Run a helper in a separate process that keeps the descriptors which trials share with it."""
    os.closerange = lambda first, last: None
    helper = CompileHelper(emit, warm_up)
    pid = os.fork()
    if pid == 0:
        try:
            helper.serve(lambda: calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL))
        finally:
            os._exit(1)
    helper.connect()
    assert helper.pid() == pid
    yield helper
    helper.close()
    assert os.waitpid(pid, 0)[1] == 0


def too_much() -> None:
    compile_helper.MAX_BYTES = 3
    with running_helper(bytes) as helper:
        assert helper.request_code(b"for").result(30) == b"for"
        error = helper.request_code(b"four").exception(30)
        assert isinstance(error, EmitError)
        assert str(error).startswith("4 bytes are too many")


def side_by_side() -> None:
    """Two requests run concurrently: each answers only when the other has begun; one is at
    leisure.
    """
    os.sched_getaffinity = lambda pid: {0, 1}
    reader, writer = os.pipe()
    other_reader, other_writer = os.pipe()

    def meet(request: bytes) -> bytes:
        mine, others = (writer, other_reader) if request == b"one" else (other_writer, reader)
        os.write(mine, b"!")
        os.read(others, 1)
        return str(os.nice(0)).encode()

    with running_helper(meet) as helper:
        one = helper.request_code(b"one", at_leisure=True)
        two = helper.request_code(b"two")
        weights = int(two.result(30)), int(one.result(30))
    assert weights == (os.nice(0), max(os.nice(0), 5)), weights


def kept_ready() -> None:
    """A request for which a launch waits gets the child that is kept ready; then another is
    made. The helper itself warms up only after a request.
    """
    reader, writer = os.pipe()

    def warm_up() -> Iterator[None]:
        os.write(writer, struct.pack("<Q", os.getpid()))
        yield

    def warmed_up() -> int:
        return int(struct.unpack("<Q", os.read(reader, 8))[0])

    with running_helper(lambda _: str(os.getpid()).encode(), warm_up) as helper:
        prepared = helper.prepare()
        assert prepared[0] == helper.pid()
        helper.keep_child_ready()
        ready = warmed_up()
        assert ready == prepared[1]
        assert not select.select([reader], [], [], 1)[0]
        for expected in ([helper.pid()], []):
            assert int(helper.request_code(b"", at_leisure=True).result(30)) not in prepared
            assert int(helper.request_code(b"").result(30)) == ready
            assert [warmed_up() for _ in expected] == expected
            ready = warmed_up()


def warm_at_second() -> None:
    """Without a child that is ready, the helper warms up and then forks one, which need not."""
    reader, writer = os.pipe()

    def warm_up() -> Iterator[None]:
        os.write(writer, struct.pack("<Q", os.getpid()))
        yield

    with running_helper(lambda _: str(os.getpid()).encode(), warm_up) as helper:
        _, ready = helper.prepare()
        requests = [helper.request_code(b"") for _ in range(3)]
        pids = [int(one.result(30)) for one in requests]
        assert pids[0] == ready
        os.close(writer)
        warm = os.read(reader, 3 * 8)
        assert struct.pack("<Q", helper.pid()) in warm
        assert not any(struct.pack("<Q", one) in warm for one in pids[1:])


def left_off() -> None:
    """A request does not wait until its child has finished warming up."""
    reader, writer = os.pipe()

    def warm_up() -> Iterator[None]:
        while True:
            os.write(writer, b"!")
            yield

    with running_helper(lambda _: str(os.getpid()).encode(), warm_up) as helper:
        helper.keep_child_ready()
        os.read(reader, 1)
        (child,) = Path(f"/proc/{helper.pid()}/task/{helper.pid()}/children").read_text().split()
        assert helper.request_code(b"").result(30) == child.encode()


def ended_early() -> None:
    """A prepared child that has ended is reaped once the helper is in its control group."""
    with running_helper(lambda _: str(os.getpid()).encode()) as helper:
        _, child = helper.prepare()
        os.kill(child, signal.SIGKILL)
        while "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
            time.sleep(0.01)
        time.sleep(0.1)
        assert Path(f"/proc/{child}").exists()
        helper.keep_child_ready()
        assert int(helper.request_code(b"").result(30)) != child
        assert not Path(f"/proc/{child}").exists()


def no_memory() -> None:
    """A child that cannot receive its request ends, without an effect on the next request."""
    write_all = memory.write_all

    def write(descriptor: int, data: bytes, offset: int) -> None:
        write_all(descriptor, data[:2], offset)
        if data == b"long":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(descriptor, data, offset)

    memory.write_all = write
    with running_helper(bytes) as helper:
        helper.keep_child_ready()
        for _ in range(2):  # with the child that is kept ready, if any, and with a new one
            error = helper.request_code(b"long").exception(30)
            assert isinstance(error, EmitError)
            assert error.killed
            assert helper.request_code(b"a").result(30) == b"a"
            time.sleep(0.5)
        left = Path(f"/proc/{helper.pid()}/task/{helper.pid()}/children").read_text().split()
        assert len(left) <= 1, left  # the child that is kept ready


TRIALS = {
    one.__name__: one
    for one in (
        too_much,
        side_by_side,
        kept_ready,
        warm_at_second,
        left_off,
        ended_early,
        no_memory,
    )
}

if __name__ == "__main__":
    TRIALS[sys.argv[1]]()
