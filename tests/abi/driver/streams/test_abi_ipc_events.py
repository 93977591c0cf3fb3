"""Events that another process of the slice records, and waits for."""

import ctypes

import pytest

from support.programs.steps import PRELUDE, Process

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 1, 201, 400, 600
DESTROYED, LAUNCH_FAILED = 709, 719
NON_BLOCKING, UNTIMED, SHARED = 1, 2, 4
AT_LEAST = 0

# The program has a stream behind a gate, and does what each line says; it replies with the status.
OTHER = (
    PRELUDE
    + """
stream, side, event = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
for one in (stream, side):
    assert lib.cuStreamCreate(ctypes.byref(one), 1) == 0
assert lib.cuMemAllocHost_v2(ctypes.byref(pointer), ctypes.c_size_t(8)) == 0
gate = ctypes.c_uint32.from_address(pointer.value)
done = ctypes.c_uint32.from_address(pointer.value + 4)
gate.value = done.value = 0
def close_gate():
    gate.value = 0
    return lib.cuStreamWaitValue32_v2(stream, pointer, 1, 0)
def open_gate():
    gate.value = 1
    return 0
def make():
    status = lib.cuEventCreate(ctypes.byref(event), 6)
    handle = H()
    assert lib.cuIpcGetEventHandle(ctypes.byref(handle), event) == 0
    print(ctypes.string_at(ctypes.byref(handle), 64).hex(), end=" ")
    return status
def wait():
    status = lib.cuStreamWaitEvent(side, event, 0)
    address = ctypes.c_uint64(pointer.value + 4)
    assert lib.cuStreamWriteValue32_v2(side, address, 1, 0) == 0
    return status
commands = {
    "make": make,
    "wait": wait,
    "close gate": close_gate,
    "open gate": open_gate,
    "record": lambda: lib.cuEventRecord(event, stream),
    "query": lambda: lib.cuEventQuery(event),
    "synchronize": lambda: lib.cuEventSynchronize(event),
    "synchronize side": lambda: lib.cuStreamSynchronize(side),
    "done": lambda: done.value,
    "destroy": lambda: lib.cuEventDestroy_v2(event),
    "handle": lambda: lib.cuIpcGetEventHandle(ctypes.byref(H()), event),
}
line = step()
while line:
    if line in commands:
        print(commands[line](), end=" ")
    else:
        print(lib.cuIpcOpenEventHandle(ctypes.byref(event), raw(line)), end=" ")
    line = step()
"""
)


@pytest.fixture
def other(environment):
    """Another program, and a function that has it do a step and returns the status."""
    process = Process(environment, OTHER)
    assert process.reply() == "ok"

    def do(line: str) -> int:
        status, end = process.do(line).split()
        assert end == "ok"
        return int(status)

    yield process, do
    process.kill()


@pytest.fixture
def stream_behind_gate(cuda):
    """A stream that goes on when the word is 1."""
    address = int(cuda.cuMemAllocHost(4))
    word = ctypes.c_uint32.from_address(address)
    word.value = 0
    stream = cuda.cuStreamCreate(NON_BLOCKING)
    cuda.cuStreamWaitValue32(stream, address, 1, AT_LEAST)
    yield stream, word
    word.value = 1


def handle_of(cuda, event) -> str:
    return ctypes.string_at(cuda.cuIpcGetEventHandle(event).getPtr(), 64).hex()


def to_handle(cuda, text: str):
    """Return a handle for ``cuIpcOpenEventHandle``."""
    handle = cuda.CUipcEventHandle()
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
    return handle


def test_either_process_records_and_waits(cuda, other, stream_behind_gate):
    _, do = other
    stream, word = stream_behind_gate
    assert cuda.code("cuEventCreate", SHARED) == INVALID_VALUE
    assert cuda.code("cuIpcGetEventHandle", cuda.cuEventCreate(UNTIMED)) == INVALID_HANDLE
    event = cuda.cuEventCreate(SHARED | UNTIMED)
    name = handle_of(cuda, event)
    assert cuda.code("cuIpcOpenEventHandle", to_handle(cuda, name)) == INVALID_CONTEXT
    wrong = bytearray.fromhex(name)
    for place in (3, 40, 57):  # the key, the size, the event
        wrong[place] ^= 1
        assert do(wrong.hex()) == INVALID_HANDLE
        wrong[place] ^= 1
    assert do(name) == 0
    assert do("handle") == INVALID_HANDLE
    assert do("query") == do("synchronize") == 0, "it was not recorded"
    for _ in range(100):  # more than there is room for records that are not done
        cuda.cuEventRecord(event, stream)
    assert do("query") == NOT_READY
    assert do("wait") == 0
    assert do("done") == 0
    word.value = 1
    assert do("synchronize side") == do("synchronize") == do("query") == 0
    assert do("done") == 1
    assert do("close gate") == do("record") == 0
    assert cuda.code("cuEventQuery", event) == NOT_READY
    cuda.cuStreamWaitEvent(stream, event, 0)
    assert cuda.code("cuStreamQuery", stream) == NOT_READY
    assert do("open gate") == 0
    cuda.cuStreamSynchronize(stream)
    cuda.cuEventSynchronize(event)
    assert cuda.code("cuEventQuery", event) == 0
    cuda.cuEventDestroy(event)
    assert do("query") == do("record") == INVALID_HANDLE
    assert do("destroy") == 0
    assert do(name) == INVALID_HANDLE


def test_nothing_waits_for_a_process_that_opened_an_event_and_was_killed(cuda, other):
    process, do = other
    event = cuda.cuEventCreate(SHARED | UNTIMED)
    stream = cuda.cuStreamCreate(NON_BLOCKING)
    assert do(handle_of(cuda, event)) == do("close gate") == do("record") == 0
    process.kill()
    assert cuda.code("cuEventSynchronize", event) == DESTROYED
    assert cuda.code("cuStreamWaitEvent", stream, event, 0) == DESTROYED
    cuda.cuEventRecord(event, stream)
    cuda.cuEventSynchronize(event)


def test_a_stream_that_waits_for_a_killed_process_ends_its_context(cuda, other, capfd):
    process, do = other
    name, status, _ = process.do("make").split()
    assert int(status) == 0
    event = cuda.cuIpcOpenEventHandle(to_handle(cuda, name))
    assert do("record") == do("synchronize") == 0
    assert cuda.code("cuEventQuery", event) == 0
    assert do("close gate") == do("record") == 0
    assert cuda.code("cuEventQuery", event) == NOT_READY
    stream = cuda.cuStreamCreate(NON_BLOCKING)
    cuda.cuStreamWaitEvent(stream, event, 0)
    process.kill()
    assert cuda.code("cuStreamSynchronize", stream) == LAUNCH_FAILED
    assert "recorded or made the event has ended" in capfd.readouterr().err
