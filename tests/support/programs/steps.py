"""Programs that share memory and events with a test: each does a step for each line."""

import subprocess
import sys

# A program that has a context, and functions for its steps.
PRELUDE = """
import ctypes, os, sys
lib = ctypes.CDLL("libcuda.so.1")
class H(ctypes.Structure):
    _fields_ = [("b", ctypes.c_char * 64)]
def raw(text):
    return H.from_buffer_copy(bytes.fromhex(text))
pointer = ctypes.c_uint64()
context = ctypes.c_void_p()
assert lib.cuInit(0) == 0
device = ctypes.c_int()
assert lib.cuDeviceGet(ctypes.byref(device), 0) == 0
assert lib.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
def read(count):
    data = ctypes.create_string_buffer(count)
    assert lib.cuMemcpyDtoH_v2(data, pointer, ctypes.c_size_t(count)) == 0
    return data.raw
def used():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert lib.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value
def step():
    print("ok", flush=True)
    return sys.stdin.readline().strip()
"""


class Process:
    """Another program of the slice, which does a step for each line."""

    def __init__(self, environment, text: str, *arguments: str, passed=()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", text, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=passed,
        )

    def reply(self) -> str:
        return self._process.stdout.readline().strip()

    def do(self, line: str) -> str:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.reply()

    def kill(self) -> None:
        with self._process:
            self._process.kill()

    def end(self) -> int:
        with self._process:
            self._process.stdin.close()
        return self._process.returncode
