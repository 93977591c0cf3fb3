"""atom and red by generic addresses of local memory: each thread updates memory of its own.

Both executors agree, and threads find what a model of the instruction says.
"""

import signal

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from support.kernels import atomic_kernels as kernels
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import AddressFault, MisalignedFault
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_THREADS = 64
_BLOCK = (_THREADS, 1, 1)
_SLOT = 16  # bytes of a cell and of its neighbours, which must not change
_SLOTS = 4
_SWAPPED = 7
_PLANS = (None, jit.Plan(16, 4), jit.Plan(8, 1), jit.Plan(1, 1))
_OPERATIONS = [*kernels.SCALARS, ("exch", "b128"), ("cas", "b128")]
# The instructions that select %e, the address that is updated. The local address is %g, if all
# threads have the same one %h; each thread has a slot in shared memory (%s) and in global memory.
_SELECTIONS = {
    "a place for each thread": "mov.u64 %e, %g;",
    "one place": "mov.u64 %e, %h;",
    "local memory, or not": "and.b32 %x, %t, 1; setp.eq.u32 %q, %x, 0; selp.b64 %e, %g, %o, %q;",
    "three memories": "rem.u32 %x, %t, 3; setp.eq.u32 %q, %x, 0; selp.b64 %e, %g, %s, %q;"
    "setp.eq.u32 %q, %x, 1; selp.b64 %e, %o, %e, %q;",
}


def _is_local(selection: str, thread: int) -> bool:
    return thread % {"local memory, or not": 2, "three memories": 3}.get(selection, 1) == 0


def _is_shared(selection: str, thread: int) -> bool:
    return selection == "three memories" and thread % 3 == 2


def _module(op: str, type_: str, selection: str, *, red: bool = False, guard: str = "") -> Module:
    """Return a kernel in which each thread updates the first cell of a slot once.

    Parameters: slots before the update, operands, slots in global memory, and found values and
    slots after the update.
    """
    bits = kernels.shape_of(type_).register_bits
    wide = bits == 128
    read = "ld.global.v2.u64 {%y, %w}, [%v]; mov.b128 %big, {%y, %w}; mov.b128 %old, %big;"
    write = "mov.b128 {%y, %w}, %old; st.global.v2.u64 [%f], {%y, %w};"
    if not wide:
        read = f"ld.global.b{bits} %y, [%v]; mov.b{bits} %z, %y;"
        write = f"st.global.b{bits} [%f], %z;"
    noftz = ".noftz" if "f16" in type_ else ""
    first = "" if red else "%old, " if wide else "%z, "
    third = f", {'%new' if wide else '%c'}" if op == "cas" else ""
    update = (
        f"{'red' if red else 'atom'}.{op}{noftz}.{type_} {first}[%e], {'%big' if wide else '%y'}"
    )
    fill = "ld.global.v4.u32 {%i0, %i1, %i2, %i3}, [%a];"
    text = f"""
        ld.param.u64 %a, [pa]; ld.param.u64 %v, [pv]; ld.param.u64 %o, [po]; ld.param.u64 %f, [pf];
        mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, {_SLOT}, %a; mad.wide.u32 %v, %t, {_SLOT}, %v;
        mad.wide.u32 %o, %t, {_SLOT}, %o; mad.wide.u32 %f, %t, {2 * _SLOT}, %f;
        mov.u64 %h, own; cvta.local.u64 %h, %h; and.b32 %x, %t, {_SLOTS - 1};
        mad.wide.u32 %g, %x, {_SLOT}, %h;
        mov.u64 %s, tile; cvta.shared.u64 %s, %s; mad.wide.u32 %s, %t, {_SLOT}, %s;
        {_SELECTIONS[selection]}
        rem.u32 %x, %t, 5; setp.ne.u32 %p, %x, 3;
        {fill} st.v4.u32 [%e], {{%i0, %i1, %i2, %i3}};
        mov.b{64 if wide else bits} %c, {_SWAPPED}; mov.b128 %new, {{%n, %n}};
        {read} {guard} {update}{third}; {write}
        ld.v4.u32 {{%i0, %i1, %i2, %i3}}, [%e]; st.global.v4.u32 [%f+{_SLOT}], {{%i0, %i1, %i2, %i3}};
    """
    narrow = 64 if wide else bits
    registers = f""".reg .b64 %a, %v, %o, %f, %g, %h, %s, %e, %n; .reg .b32 %t, %x, %i<4>;
        .reg .pred %p, %q; .reg .b128 %big, %old, %new; .reg .b{narrow} %y, %w, %z, %c;
        .local .align 16 .b8 own[{_SLOT * _SLOTS}];
        .shared .align 16 .b8 tile[{_SLOT * (_THREADS + 1)}];"""
    text = text.replace("mov.b128 %new", f"mov.u64 %n, {_SWAPPED}; mov.b128 %new")
    # The slots in shared memory begin at the second one, so that the places of some of them there
    # equal places of other threads' slots in local memory.
    text = text.replace(f"%t, {_SLOT}, %s;", f"%t, {_SLOT}, %s; add.u64 %s, %s, {_SLOT};", 1)
    return compile_verified(
        kernel(text, ", ".join(f".param .u64 p{n}" for n in "avof"), registers=registers)
    )


def _slots(type_: str, seed: int) -> np.ndarray:
    """Return a slot for each thread: operands in its first cell, and other bytes behind them."""
    slots = np.random.default_rng(seed).integers(0, 256, (_THREADS, _SLOT), np.uint8)
    shape = kernels.shape_of(type_)
    if shape.bytes < _SLOT:
        cells = kernels.operands(type_, _THREADS, seed).astype(f"<u{shape.piece_bits // 8}")
        slots[:, : shape.bytes] = cells.view(np.uint8).reshape(_THREADS, -1)
    return slots


def _inputs(op: str, type_: str) -> tuple[np.ndarray, np.ndarray]:
    before, operands = _slots(type_, 3), _slots(type_, 4)
    if op == "cas":  # half of the threads find what they expect
        operands[::4], operands[3::4] = before[::4], before[3::4]
        if type_ == "b128":  # one half of the bits is as expected
            operands[1::4, :8] = before[1::4, :8]
            operands[2::4, 8:] = before[2::4, 8:]
    return before, operands


def _updated(op: str, type_: str, before: bytes, operand: bytes, *, flushed: bool) -> bytes:
    shape, result = kernels.shape_of(type_), bytearray(before)
    step = shape.piece_bits // 8
    swapped = _SWAPPED | (_SWAPPED << 64 if type_ == "b128" else 0)
    for at in range(0, shape.bytes, step):
        m, b = (int.from_bytes(one[at : at + step], "little") for one in (before, operand))
        operands = [b, *([swapped] if op == "cas" else [])]
        value = kernels.apply_update(
            op, shape.kind, shape.piece_bits, m, operands, flushed=flushed and shape.kind == "f32"
        )
        result[at : at + step] = value.to_bytes(step, "little")
    return bytes(result)


def _check(
    op: str, type_: str, selection: str, *, red: bool = False, guard: str = "",
    plans: tuple[jit.Plan | None, ...] = _PLANS,
) -> None:  # fmt: skip
    module = _module(op, type_, selection, red=red, guard=guard)
    before, operands = _inputs(op, type_)
    blank = bytes(_THREADS * _SLOT)
    buffers = [before.tobytes(), operands.tobytes(), blank, 2 * blank]
    for plan in plans:
        assert prover.prove(compiler().emit_llvm(module, module.functions[0], _BLOCK, plan))
    *_, found = compare(module, buffers, (1, 1, 1), _BLOCK, plans)
    size = kernels.shape_of(type_).bytes
    for thread in range(_THREADS):
        record = found[2 * _SLOT * thread :][: 2 * _SLOT]
        first, operand = before[thread].tobytes(), operands[thread].tobytes()
        idle = guard and thread % 5 == 3
        flushed = not (_is_local(selection, thread) or _is_shared(selection, thread))
        after = first if idle else _updated(op, type_, first, operand, flushed=flushed)
        assert record[_SLOT:] == after, thread
        assert record[:size] == (operand if idle or red else first)[:size], thread


@pytest.mark.parametrize(("op", "type_"), _OPERATIONS)
def test_atom(op: str, type_: str) -> None:
    _check(op, type_, "three memories", plans=_PLANS[1:2])
    _check(op, type_, "one place", guard="@%p", plans=_PLANS[2:3])


@pytest.mark.parametrize("selection", _SELECTIONS)
@pytest.mark.parametrize(("op", "type_"), [("add", "u32"), ("cas", "b16"), ("exch", "b128")])
def test_every_selection_of_addresses(op: str, type_: str, selection: str) -> None:
    _check(op, type_, selection)


@pytest.mark.parametrize("selection", ["one place", "three memories"])
@pytest.mark.parametrize(("op", "type_"), [("add", "u64"), ("max", "s32"), ("add", "f32")])
def test_red(op: str, type_: str, selection: str) -> None:
    _check(op, type_, selection, red=True, guard="@%p", plans=_PLANS[1:3])


@pytest.mark.parametrize("opcode", ["atom.add.u32 %z,", "red.add.u32", "red.add.f32"])
@pytest.mark.parametrize("wanted", [0, 1])
def test_all_threads_select_local_or_global_memory(opcode: str, wanted: int) -> None:
    """One address, which a parameter selects: in local memory, it is as many places as threads."""
    module = compile_verified(
        kernel(
            f"""ld.param.u64 %o, [po]; ld.param.u64 %f, [pf]; ld.param.u32 %n, [pn];
            mov.u32 %t, %tid.x; mad.wide.u32 %f, %t, 8, %f; mov.u32 %z, 0;
            mov.u64 %h, own; cvta.local.u64 %h, %h; setp.ne.u32 %p, %n, 0;
            selp.b64 %e, %h, %o, %p; {opcode} [%e], %t; bar.sync 0; {opcode} [%e], %t;
            bar.sync 0; st.global.u32 [%f], %z; ld.u32 %z, [%e]; st.global.u32 [%f+4], %z;""",
            ".param .u64 po, .param .u64 pf, .param .u32 pn",
            registers=".reg .b64 %o, %f, %h, %e; .reg .b32 %n, %t, %z; .reg .pred %p;"
            " .local .align 4 .b8 own[4];",
        )
    )
    buffers = [bytes(4), bytes(8 * _THREADS)]
    _, found = compare(module, buffers, (1, 1, 1), _BLOCK, _PLANS, extra=(wanted,))
    numbers = np.frombuffer(found, "<u4").reshape(_THREADS, 2)
    if not wanted and "u32" in opcode:
        assert numbers[:, 1].tolist() == [_THREADS * (_THREADS - 1)] * _THREADS
    if wanted:  # as subnormal numbers, the integers have integers' sums
        assert numbers[:, 1].tolist() == [2 * t for t in range(_THREADS)]
    if wanted and "atom" in opcode:
        assert numbers[:, 0].tolist() == list(range(_THREADS))


def test_updates_in_a_divergent_loop() -> None:
    module = compile_verified(
        kernel(
            """ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 8, %o;
            mov.u64 %h, own; cvta.local.u64 %h, %h; and.b32 %n, %t, 7; mov.u32 %s, 0;
            AGAIN: and.b32 %z, %n, 3; mad.wide.u32 %e, %z, 4, %h;
            atom.inc.u32 %z, [%e], 5; add.u32 %s, %s, %z; atom.max.u32 %z, [%h+12], %t;
            add.u32 %s, %s, %z; sub.u32 %n, %n, 1; setp.ge.s32 %p, %n, 0; @%p bra AGAIN;
            ld.u32 %z, [%h+12]; st.global.v2.u32 [%o], {%s, %z};""",
            ".param .u64 po",
            registers=".reg .b64 %o, %h, %e; .reg .b32 %n, %s, %t, %z; .reg .pred %p;"
            " .local .align 4 .b8 own[16];",
        )
    )
    (found,) = compare(module, [bytes(8 * _THREADS)], (2, 1, 1), _BLOCK, _PLANS)
    numbers = np.frombuffer(found, "<u4").reshape(_THREADS, 2)
    for thread, row in enumerate(numbers.tolist()):
        cells, total = [0] * 4, 0
        for step in range(thread & 7, -1, -1):
            total += cells[step & 3]
            cells[step & 3] = 0 if cells[step & 3] >= 5 else cells[step & 3] + 1
            total += cells[3]
            cells[3] = max(cells[3], thread)
        assert row == [total, cells[3]]


@pytest.mark.parametrize(
    ("where", "interpreted"),
    [("%h+64", AddressFault), ("%h+2", MisalignedFault), ("%e", AddressFault)],
)
@pytest.mark.parametrize("plan", _PLANS[1:])
def test_updates_beyond_a_threads_own_bytes_fault(
    where: str, interpreted: type[Exception], plan: jit.Plan
) -> None:
    module = compile_verified(
        kernel(
            f"""ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 13;
            mov.u64 %h, own; cvta.local.u64 %h, %h; selp.b64 %e, 64, 0, %p; add.u64 %e, %h, %e;
            atom.add.u32 %t, [{where}], 1; st.global.u32 [%o], %t;""",
            ".param .u64 po",
            registers=".reg .b64 %o, %h, %e; .reg .b32 %t; .reg .pred %p;"
            " .local .align 16 .b8 own[64];",
        )
    )
    function, bench = module.functions[0], Bench(bytes(256))
    try:
        parameters = native_launch.pack(function.parameters, 8, bench.addresses())
        with pytest.raises(interpreted):
            bench.interpret(module, (1, 1, 1), _BLOCK, parameters)
        loaded = compiler().load(compiler().compile(module, function, _BLOCK, plan))
        launch = native_launch.context(
            bench.aperture, (1, 1, 1), _BLOCK, local_bytes=local_bytes(function)
        )
        assert native_launch.run(loaded, launch, parameters, [(0, 1)]).signal == signal.SIGSEGV
    finally:
        bench.close()
