"""Backends run the binary alone: one operand changed in its text changes what both compute."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import EXAMPLES, environment, run, tessera

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, launch

def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) > 1 else None

device = Device(0)
device.set_current()
image = Path(sys.argv[1]).read_bytes()
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(image)), b"vecadd"))
a = np.arange(1000, dtype=np.float32)
b = np.full(1000, 0.5, dtype=np.float32)
memory = [call(driver.cuMemAlloc(a.nbytes)) for _ in range(3)]
for address, values in zip(memory, (a, b)):
    call(driver.cuMemcpyHtoD(address, values.ctypes.data, a.nbytes))
arguments = [np.array([int(m)], dtype=np.uint64) for m in memory] + [np.array([1000], np.int32)]
pointers = np.array([argument.ctypes.data for argument in arguments], dtype=np.uint64)
call(driver.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0))
call(driver.cuCtxSynchronize())
c = np.empty_like(a)
call(driver.cuMemcpyDtoH(c.ctypes.data, memory[2], a.nbytes))
print("a+b" if (c == a + b).all() else "a+a" if (c == a + a).all() else "neither")
"""


def tool(place: Path, *arguments: str) -> None:
    command = tessera(*arguments)
    subprocess.run(command, cwd=place, env=environment(place), check=True, timeout=60)


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_an_operand_changed_in_the_text_changes_the_result(place: Path, backend: str) -> None:
    tool(place, "ptx", "compile", str(EXAMPLES / "vecadd.ptx"), "--emit", "isa", "-o", "k.isa")
    text = re.sub(r"^\.source .*\n", "", (place / "k.isa").read_text(), flags=re.MULTILINE)
    (place / "k.isa").write_text(text)
    changed, count = re.subn(r"(FADD\.F32 +\w+, )(\w+), \w+", r"\1\2, \2", text)
    assert count == 1
    (place / "changed.isa").write_text(changed)
    for name, expected in (("k", "a+b"), ("changed", "a+a")):
        tool(place, "isa", "asm", f"{name}.isa", "-o", f"{name}.bin")
        assert b".visible" not in (place / f"{name}.bin").read_bytes()  # no PTX anywhere
        program = (sys.executable, "-c", PROGRAM, f"{name}.bin")
        done = run(place, *program, backend=backend)
        assert done.stdout.strip() == expected, done.stderr
