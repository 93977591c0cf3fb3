"""Code for CPUs other than this machine's: AVX2 only, Arm with NEON, Arm with SVE.

The text must only use what any CPU of that kind has, its addresses are proved to be clamped, it
passes LLVM's verifier, and compiles to an object file. It is not executed.
"""

import re
import struct
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from support.execution.shared_code import SharingCompiler
from support.kernels.kernel_builder import KernelBuilder
from support.kernels.random_kernels import functions, kernels, meetings
from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.objects import elf, line_table
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Module

_ROOT = Path(__file__).parents[4]
_EXAMPLES = sorted((_ROOT / "examples").glob("*.ptx"))
_TARGETS = {"AVX2": llvm.AVX2, "NEON": llvm.NEON, "SVE": llvm.SVE}
_MACHINES = {"AVX2": "EM_X86_64", "NEON": "EM_AARCH64", "SVE": "EM_AARCH64"}
_OF_ONE_CPU = re.compile(r"@(llvm\.(?:x86|aarch64|arm)\.[\w.]+)")
_HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"

# Kernels whose text differs between kinds of CPU.
_SPECIAL = f"""{_HEAD}
.visible .entry directed(.param .u64 out)
{{
  .reg .b64 %d<2>; .reg .f32 %f<4>; .reg .f64 %g<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %d0, [out];
  ld.global.f32 %f0, [%d0]; ld.global.f64 %g0, [%d0+8];
  add.rz.f32 %f1, %f0, %f0; fma.rp.f32 %f1, %f1, %f0, %f0; div.rm.f64 %g1, %g0, %g0;
  sqrt.rp.f64 %g1, %g1; mul.rz.f64 %g1, %g1, %g0;
  mov.u32 %r0, %tid.x;
  shfl.sync.idx.b32 %r1|%p0, %r0, %r0, 31, -1;
  bar.sync 0;
  redux.sync.add.u32 %r1, %r1, -1;
  match.any.sync.b32 %r2, %r1, -1;
  atom.global.add.u32 %r3, [%d0], %r2;
  atom.global.add.f32 %f2, [%d0], %f1;
  mov.u64 %d1, %clock64; st.global.u64 [%d0], %d1;
  st.global.f32 [%d0], %f1; st.global.f64 [%d0+8], %g1; st.global.u32 [%d0+4], %r3;
  ret;
}}
"""


def _code_section(file: ELFFile) -> elf.CodeSection:
    """Return what ``elf.read`` returns, by a general library."""
    dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
    rows = {}
    for unit in dwarf.iter_CUs():
        for entry in dwarf.line_program_for_CU(unit).get_entries():
            if entry.state is not None:
                rows[entry.state.address] = 0 if entry.state.end_sequence else entry.state.line
    assert len(rows) > 3
    size = file.get_section_by_name(".text")["sh_size"]
    return elf.CodeSection(size, tuple(sorted(rows.items())))


def _object(module: Module, name: str, block: tuple[int, int, int] = (64, 1, 1)) -> str:
    """Compile each kernel for a target; return the text of all."""
    texts = []
    with llvm.generating_for(_TARGETS[name]):
        for function in module.functions:
            native = SharingCompiler()
            shape = function.required_block or block
            texts.append(native.emit_llvm(module, function, shape))
            clamp_proof.prove(texts[-1])
            code = native.compile(module, function, shape)
            with ELFFile(BytesIO(code.object_code)) as file:
                assert file["e_machine"] == _MACHINES[name]
                undefined = [
                    symbol.name
                    for symbol in file.get_section_by_name(".symtab").iter_symbols()
                    if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
                ]
                assert not undefined, "code that is loaded here sees no library"
                assert elf.read(code.object_code) == _code_section(file)
    return "\n".join(texts)


@pytest.mark.parametrize("name", _TARGETS)
@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path, name: str) -> None:
    module = compile_ptx(path.read_bytes(), capability=(9, 0))
    _check(_object(module, name), name)


@pytest.mark.parametrize("name", _TARGETS)
def test_kernels_lowered_differently_per_cpu(name: str) -> None:
    module = compile_ptx(_SPECIAL, capability=(9, 0))
    for block in ((64, 1, 1), (7, 3, 1), (1, 1, 1)):
        text = _object(module, name, block)
        _check(text, name)
        assert ("llvm.set.rounding" in text) == (name != "AVX2")


@pytest.mark.parametrize("name", _TARGETS)
@pytest.mark.parametrize("make", [kernels.generate, meetings.generate, functions.generate])
def test_random_kernels(make, name: str) -> None:
    kernel = make(3)
    module = compile_ptx(kernel.text, capability=(10, 0))
    _check(_object(module, name, kernel.block), name)


def _check(text: str, name: str) -> None:
    named = set(_OF_ONE_CPU.findall(text))
    if name == "AVX2":
        assert not [one for one in named if "avx512" in one]
    else:
        assert not named


def test_another_target_is_another_entry_of_the_cache_and_ends_with_its_block() -> None:
    b = KernelBuilder(8)
    module = b.module()
    keys = set()
    here = llvm.target()
    for target in (here, *_TARGETS.values()):
        with llvm.generating_for(target):
            keys.add(jit.content_key(module, module.functions[0], (32, 1, 1), None))
    assert len(keys) == 4
    assert llvm.target() == here


def test_code_of_another_machine_is_not_loaded() -> None:
    module = compile_ptx(_EXAMPLES[0].read_bytes(), capability=(9, 0))
    with llvm.generating_for(llvm.NEON):
        code = jit.Compiler().compile(module, module.functions[0], (64, 1, 1))
    with pytest.raises(CodeGenerationError):
        jit.Compiler().load(code)


def _line_program(*steps: int) -> bytes:
    """Return a ``.debug_line`` section: one unit with these bytes as its program."""
    lengths = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    header = bytes((1, 1, 1, 0xFB, 14, 13)) + lengths + b"\0\0"
    program = struct.pack("<HI", 4, len(header)) + header + bytes(steps)
    return struct.pack("<I", len(program)) + program


def test_a_line_program_with_every_kind_of_step() -> None:
    steps = (
        *(0, 9, 2, 0x40, 0, 0, 0, 0, 0, 0, 0),  # set the address
        *(3, 0x7F, 1),  # one line back, and a row
        *(2, 0x83, 0x01, 4, 5, 5, 7, 6, 10, 1),  # 131 bytes on; file, column and statement; a row
        *(8, 9, 0, 1, 12, 3, 7, 11, 18),  # 17 and 256 bytes on; ISA and prologue; line and address
        *(2, 1, 0, 1, 1),  # the end of the sequence
    )
    rows = list(line_table.rows(_line_program(*steps) + _line_program(1)))
    assert rows == [(0x40, 0), (0x40 + 131, 0), (0x40 + 404, 0), (0x40 + 405, 0), (0, 1)]


@pytest.mark.parametrize("kept", [3, 11, 40, -1])
def test_an_incomplete_line_table_is_refused(kept: int) -> None:
    with pytest.raises(ValueError, match="line table"):
        list(line_table.rows(_line_program(1, 2, 0x83, 1, 2, 0x83)[:kept]))


def test_a_line_table_of_another_version_is_refused() -> None:
    section = bytearray(_line_program(1))
    section[4] = 5
    with pytest.raises(ValueError, match="DWARF 5"):
        list(line_table.rows(bytes(section)))
