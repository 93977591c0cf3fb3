"""Generic addresses in shared or global memory: both backends, and the bounds of native code."""

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.errors import AddressFault, KernelError, MisalignedFault
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import Module, Op, SpecialRegister

_BLOCK = (32, 1, 1)
_PLANS = (jit.Plan(16, 2), jit.Plan(8, 1), jit.Plan(1, 1))
_REGISTERS = """
    .reg .b64 %a, %o, %g, %e, %w, %x; .reg .b32 %t, %i, %v<4>, %k; .reg .pred %p, %q, %r;
    .shared .align 16 .b8 sm[1024];
"""
_PROLOGUE = """
    ld.param.u64 %a, [pa]; ld.param.u64 %o, [po]; mov.u32 %t, %tid.x;
    mad.wide.u32 %o, %t, 64, %o;
    mov.u64 %g, sm; cvta.shared.u64 %g, %g;
    mad.wide.u32 %x, %t, 32, %g;
    mov.u32 %v0, 0x1000; add.u32 %v0, %v0, %t; st.u32 [%x], %v0; st.u32 [%x+4], %t;
    st.v2.u32 [%x+8], {%t, %v0};
    bar.sync 0;
    BASE
"""
_WHERE = {
    "shared": "mov.b64 %e, %g;",
    "either, shared": "setp.lt.u32 %q, %t, 99; selp.b64 %e, %g, %a, %q;",
    "either, global": "setp.ge.u32 %q, %t, 99; selp.b64 %e, %g, %a, %q;",
    "either by lane": "and.b32 %i, %t, 1; setp.eq.u32 %q, %i, 0; selp.b64 %e, %g, %a, %q;",
    "loaded": "st.global.u64 [%o], %g; ld.global.u64 %e, [%o];",
}
_LANES = {
    "same": "add.u64 %e, %e, 96;",
    "neighbours": "mad.wide.u32 %e, %t, 8, %e;",
    "apart": "mad.wide.u32 %e, %t, 24, %e;",
    "any": "mul.lo.u32 %i, %t, 13; and.b32 %i, %i, 31; mad.wide.u32 %e, %i, 16, %e;",
}
_ACCESSES = {
    "ld.u32": "ld.u32 %v1, [%e+8]; st.global.u32 [%o+8], %v1;",
    "ld.v2.u32": "ld.v2.u32 {%v1, %v2}, [%e]; st.global.v2.u32 [%o+8], {%v1, %v2};",
    "ld.u8 far": "add.u64 %e, %e, -1000000000; ld.u8 %v1, [%e+1000000003]; st.global.u32 [%o+8], %v1;",
    "guarded": "@%r ld.volatile.u32 %v1, [%e+4]; st.global.u32 [%o+8], %v1;",
    "st": "@%r st.u32 [%e+4], %v0; bar.sync 0; ld.u32 %v1, [%x]; ld.u32 %v2, [%x+4];"
    " st.global.v2.u32 [%o+8], {%v1, %v2};",
}


def _module(where: str, lanes: str, access: str) -> Module:
    body = _PROLOGUE.replace("BASE", f"{_WHERE[where]} {_LANES[lanes]} setp.gt.u32 %r, %t, 4;")
    text = kernel(body + _ACCESSES[access], ".param .u64 pa, .param .u64 po", registers=_REGISTERS)
    return compile_verified(text)


@pytest.mark.parametrize("access", _ACCESSES)
@pytest.mark.parametrize("lanes", _LANES)
@pytest.mark.parametrize("where", _WHERE)
def test_every_shape(where: str, lanes: str, access: str) -> None:
    if access == "st" and lanes == "same":
        lanes = "apart"  # it is undefined which lane's value remains
    module = _module(where, lanes, access)
    for plan in _PLANS:
        text = compiler().emit_llvm(module, module.functions[0], _BLOCK, plan)
        assert prover.prove(text) >= 3
    cells = np.random.default_rng(3).integers(0, 256, 1024, np.uint8).tobytes()
    compare(module, [cells, bytes(2048)], (2, 1, 1), _BLOCK, _PLANS)


@pytest.mark.parametrize(("first", "then"), [("%g", "%a"), ("%a", "%g")])
def test_a_pointer_that_changes_its_space_in_a_loop(first: str, then: str) -> None:
    """The space of the pointer at the loop's entry does not determine that of the next
    iteration.
    """
    loop = f"""mov.b64 %e, {first}; mov.u32 %k, 0; mov.u32 %v1, 0; AGAIN:
        ld.u32 %v2, [%e]; add.u32 %v1, %v1, %v2; mov.b64 %e, {then};
        mad.wide.u32 %e, %t, 4, %e; add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 3; @%q bra AGAIN;
        st.global.u32 [%o], %v1;"""
    body = _PROLOGUE.replace("BASE", loop)
    module = compile_verified(kernel(body, ".param .u64 pa, .param .u64 po", registers=_REGISTERS))
    cells = np.random.default_rng(5).integers(0, 256, 1024, np.uint8).tobytes()
    compare(module, [cells, bytes(2048)], (1, 1, 1), _BLOCK, _PLANS)


def test_known_spaces_are_not_tested() -> None:
    """The code only selects between memories where the address may be in either."""
    for where, chosen in (("shared", False), ("either by lane", True)):
        module = _module(where, "any", "ld.u32")
        text = compiler().emit_llvm(module, module.functions[0], _BLOCK, _PLANS[0])
        assert ("x ptr> %" in text and "select <16 x i1>" in text) == chosen, where


class _Faults:
    """One invalid access by a generic address, on both backends."""

    def __init__(self, change: str, shared_bytes: int = 1024) -> None:
        body = _PROLOGUE.replace("BASE", "mov.b64 %e, %g;").replace("st.u32", "@%p st.u32")
        body = body.replace("st.v2", "@%p st.v2") + f"{change} st.global.u32 [%o], %v1;"
        text = kernel(body, ".param .u64 pa, .param .u64 po",
                      registers=_REGISTERS.replace("1024", str(shared_bytes)))  # fmt: skip
        self.module = compile_verified(text)
        self.aperture = native_launch.Aperture()
        self.data = self.aperture.allocate(bytes(2048))

    def interpret(self) -> type[KernelError] | None:
        function, address = self.module.functions[0], self.data.address
        parameters = native_launch.pack(function.parameters, 16, [address, address])
        memory = interp.BufferMemory(address, bytearray(2048))
        try:
            interp.run(self.module, function, (1, 1, 1), _BLOCK, parameters, memory)
        except KernelError as error:
            return type(error)
        return None

    def native(self, plan: jit.Plan) -> bool:
        function, address = self.module.functions[0], self.data.address
        parameters = native_launch.pack(function.parameters, 16, [address, address])
        loaded = compiler().load(compiler().compile(self.module, function, _BLOCK, plan))
        launch = native_launch.context(self.aperture, (1, 1, 1), _BLOCK)
        run = native_launch.run(loaded, launch, parameters, [(0, 1)], function.shared_bytes)
        return run.signal != 0


@pytest.mark.parametrize("plan", _PLANS)
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("ld.u32 %v1, [%e];", None),
        ("ld.u32 %v1, [%e+8192];", AddressFault),
        ("ld.u32 %v1, [%e+-4];", AddressFault),
        ("ld.u32 %v1, [%e+2];", MisalignedFault),
        ("add.u64 %e, %e, 0x100000000; ld.u32 %v1, [%e];", AddressFault),
        ("mul.wide.u32 %w, %t, 0x40000000; add.u64 %e, %e, %w; ld.u32 %v1, [%e];", AddressFault),
        ("xor.b64 %e, %e, 2; ld.u32 %v1, [%e];", MisalignedFault),
        ("xor.b64 %e, %e, 0x100000; ld.u32 %v1, [%e];", AddressFault),
        ("atom.add.u32 %v1, [%e+1], 1;", MisalignedFault),
        ("atom.add.u32 %v1, [%e+65536], 1;", AddressFault),
        ("ld.global.u32 %v1, [%e];", AddressFault),
    ],
)  # fmt: skip
def test_missing_memory_faults(
    change: str, fault: type[KernelError] | None, plan: jit.Plan
) -> None:
    case = _Faults(change)
    try:
        assert case.interpret() is fault
        assert case.native(plan) == (fault is not None)
        text = compiler().emit_llvm(case.module, case.module.functions[0], _BLOCK, plan)
        # In full groups no lane takes the path of padding lanes.
        assert prover.prove(text) >= 2
    finally:
        case.aperture.close()


def test_no_memory_is_allocated_around_the_window() -> None:
    """Native code treats addresses up to 1 GiB before and 3 GiB after the window as part of it."""
    window = address_map.SHARED_OFFSET
    assert window - (1 << 30) >= address_map.HOST_OFFSET + address_map.HOST_BYTES
    assert window + (4 << 30) <= address_map.LOCAL_OFFSET


def test_the_window_is_read_by_a_declared_instruction() -> None:
    module = _module("shared", "same", "ld.u32")
    registers = {i.sreg for i in module.functions[0].code if i.op is Op.S2R}
    assert SpecialRegister.SHARED_WINDOW in registers
