"""LLVM's two back ends for one program: the host's code, which is the oracle, and PTX.

The host's code is emitted without passes. Both modules get their data layout before any pass
runs: passes fold sizes and offsets, and without a layout they assume others than the back end.
"""

import ctypes
import functools
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding

from support.execution import native_launch
from support.fuzzers.random_ir.programs import OUT_WORDS, Program

UNWRITTEN = 0xAB  # every byte of the output before the launch
_TRIPLE = "nvptx64-nvidia-cuda"
_SPECIAL = "llvm.nvvm.read.ptx.sreg"
_REGISTERS = ("tid.x", "tid.y", "ntid.x", "ntid.y", "ctaid.x")
_CPU_SECONDS = 60
_KERNEL = """
{declarations}
define ptx_kernel void @kernel(ptr %out, ptr %in) {{
{reads}
  %row = mul i32 %tid.y, %ntid.x
  %lane = add i32 %row, %tid.x
  %threads = mul i32 %ntid.x, %ntid.y
  %before = mul i32 %ctaid.x, %threads
  %thread = add i32 %before, %lane
  %place = mul i32 %thread, {bytes}
  %p = getelementptr i8, ptr %out, i32 %place
  %q = getelementptr i8, ptr %in, i32 %place
  call void @body(ptr %p, ptr %q, i32 %thread, i32 %lane)
  ret void
}}
"""


class NoPtx(Exception):
    """LLVM emits no PTX for a program: its message, or the signal that ended it."""


@functools.cache
def _initialise() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def host(program: Program) -> np.ndarray:
    """Return the words that threads write, computed by native code in this process.

    Raises:
        RuntimeError: LLVM rejects the text, which is a defect of the generator.
    """
    _initialise()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=1,
        reloc="pic",
        codemodel="small",
    )
    linker = binding.create_lljit_compiler(machine, use_jit_link=True)
    builder = binding.JITLibraryBuilder().add_current_process()
    builder.add_object_img(machine.emit_object(_parsed(program.text, machine)))
    library = builder.export_symbol("body").link(linker, "host")
    pointer = ctypes.c_void_p
    number = ctypes.c_uint32
    body = ctypes.CFUNCTYPE(None, pointer, pointer, number, number)(library["body"])
    read = program.inputs()
    out = np.full(program.rows * OUT_WORDS * 8, UNWRITTEN, np.uint8)
    lanes = program.threads // program.blocks
    for thread in range(program.threads):
        place = thread * program.thread_bytes
        body(out.ctypes.data + place, read.ctypes.data + place, thread, thread % lanes)
    return out.view(np.uint64)


def ptx(program: Program) -> str:
    """Return the program as a kernel ``kernel(out, in)``. Raises as ``host``, and LLVM may abort."""
    _initialise()
    cpu, version = program.target.split()
    machine = binding.Target.from_triple(_TRIPLE).create_target_machine(
        cpu=cpu, features=f"+{version}", opt=program.level
    )
    module = _parsed(program.text + _kernel(program), machine)
    if program.passes:
        options = binding.create_pipeline_tuning_options(speed_level=program.passes)
        options.loop_unrolling = True
        options.slp_vectorization = program.passes > 1
        options.loop_vectorization = program.passes > 2
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    text: str = machine.emit_assembly(module)
    return text


def verify(program: Program) -> None:
    """Raise RuntimeError if LLVM rejects the program's text."""
    binding.parse_assembly(program.text).verify()


def ptx_alone(program: Program) -> str:
    """Return the program as a kernel, emitted by a child, since LLVM aborts on code it cannot
    select.

    Raises:
        NoPtx: the child aborts, raises, or exceeds a minute of CPU time.
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:

        def write() -> None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
            Path(file.name).write_text(ptx(program), encoding="utf-8")

        try:
            native_launch.in_child(write)
        except AssertionError as error:
            lines = str(error).splitlines()
            telling = [line for line in lines if "error" in line.lower()]
            raise NoPtx((telling or lines)[-1][:100]) from error
        return file.read()


def _parsed(text: str, machine: Any) -> Any:
    head = f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'
    module = binding.parse_assembly(head + text)
    module.verify()
    return module


def _kernel(program: Program) -> str:
    declared = [f"declare i32 @{_SPECIAL}.{name}()" for name in _REGISTERS]
    reads = [f"  %{name} = call i32 @{_SPECIAL}.{name}()" for name in _REGISTERS]
    return _KERNEL.format(
        declarations="\n".join(declared),
        reads="\n".join(reads),
        bytes=program.thread_bytes,
    )
