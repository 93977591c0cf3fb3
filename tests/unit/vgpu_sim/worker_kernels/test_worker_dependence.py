"""Loops that poll memory, wait for mbarrier objects, or take work from a queue."""

import pytest

from support.kernels import work_kernels
from vgpu_sim import compiler
from vgpu_sim.isa import EFFECTS, Function
from vgpu_sim.worker.observing.dependence import Dependence, dependence_of

_HEAD = """.version 8.0
.target sm_90
.address_size 64
.global .u32 ticket;
.visible .entry k(.param .u64 p0, .param .u32 p1, .param .u64 p2, .param .u64 p3)
{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %l<9>;
ld.param.u64 %l0, [p0];
ld.param.u32 %r0, [p1];
ld.param.u64 %l3, [p2];
ld.param.u64 %l4, [p3];
mov.u32 %r1, 0;
"""


def function_of(text: str) -> Function:
    (function,) = compiler.compile_ptx(text, capability=(9, 0)).functions
    return function


def analyse(body: str) -> Dependence:
    return dependence_of(function_of(_HEAD + body + "\nret;\n}\n"))


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_a_wait_for_an_mbarrier_is_no_wait_for_other_blocks(wait: str) -> None:
    function = function_of(work_kernels.make_copy_kernel(f"mbarrier.{wait}.parity.shared::cta.b64"))
    dependence = dependence_of(function)
    assert not dependence.waiting
    (loop,) = dependence.polling  # the loop around it does not poll
    assert len(loop.words) < 10
    assert function.lines[loop.words[-1]] - function.lines[loop.words[0]] <= 1


_SPIN = """{name}:
ld.volatile.{space}.{type} {to}, [{at}];
setp.eq.{type} %p1, {to}, 0;
@%p1 bra {name};
"""


@pytest.mark.parametrize(
    "loop",
    [
        _SPIN.format(name="W", space="global", type="u32", to="%r2", at="%l0"),
        _SPIN.format(name="W", space="shared", type="b64", to="%l2", at="%r1"),
        "W:\natom.acquire.gpu.global.or.b32 %r2, [%l0], 0;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra W;\n",
        "W:\natom.global.add.u32 %r2, [%l0], 0;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra W;\n",
    ],
)
def test_only_the_loop_that_polls_waits(loop: str) -> None:
    around = f"L:\nadd.u32 %r4, %r1, 1;\n{loop}add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, %r0;\n@%p2 bra L;\n"
    alone, within = analyse(loop), analyse(around)
    assert alone.waiting
    assert len(within.waiting) == len(alone.waiting)
    assert len(within.polling) == 1
    assert not alone.on_queue


@pytest.mark.parametrize("space", ["shared", "global", "volatile.global"])
def test_blocks_that_take_items_from_a_counter_share_a_queue(space: str) -> None:
    assert dependence_of(function_of(work_kernels.make_queue_kernel(space))).on_queue


_TICKET = """L:
atom.global.add.u32 %r2, [%l0], 1;
st{store}.u32 [{to}], %r2;
bar.sync 0;
ld{load}.u32 %r3, [{at}];
setp.lt.u32 %p1, %r3, %r0;
@%p1 bra L;
"""


@pytest.mark.parametrize(
    ("body", "on_queue"),
    [
        # Each thread takes items for itself.
        ("L:\natom.global.add.u32 %r2, [%l0], 1;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra L;\n", True),
        (
            "L:\natom.acq_rel.gpu.global.add.u32 %r2, [%l0], 1;\nsetp.lt.u32 %p1, %r2, %r0;\n"
            "@%p1 bra L;\n",
            True,
        ),
        # A warp's first lane takes them for the warp.
        (
            "L:\natom.global.inc.u32 %r2, [%l0], 999;\nshfl.sync.idx.b32 %r2, %r2, 0, 31, -1;\n"
            "setp.lt.u32 %p1, %r2, %r0;\n@%p1 bra L;\n",
            True,
        ),
        # Values are counted, but their number does not depend on the count.
        (
            "L:\natom.global.add.u32 %r2, [%l0], 1;\nst.global.u32 [%l0+8], %r2;\n"
            "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, %r0;\n@%p1 bra L;\n",
            False,
        ),
        # The last block adds up what the others have stored.
        (
            "atom.global.add.u32 %r2, [%l0], 1;\nsetp.ne.u32 %p1, %r2, %r0;\n@%p1 bra E;\n"
            "st.global.u32 [%l0+8], %r2;\nE:\n",
            False,
        ),
        # A compare-and-swap is repeated until it succeeds.
        (
            "ld.global.u32 %r2, [%l0];\nL:\nmov.u32 %r3, %r2;\nadd.u32 %r4, %r3, 5;\n"
            "atom.global.cas.b32 %r2, [%l0], %r3, %r4;\nsetp.ne.u32 %p1, %r2, %r3;\n@%p1 bra L;\n",
            False,
        ),
        # A thread stores the item in global memory, and its block loads it from there.
        (_TICKET.format(store=".global", to="%l3+4", load=".global", at="%l3+4"), True),
        (_TICKET.format(store=".global", to="ticket", load=".global", at="ticket"), True),
        (_TICKET.format(store="", to="%l3", load=".global", at="%l3"), True),
        (_TICKET.format(store=".global", to="%l3", load="", at="%l3"), True),
        # The address is loaded itself.
        (
            "ld.global.u64 %l5, [%l3];\n"
            + _TICKET.format(store=".global", to="%l5", load=".global", at="%l3+8"),
            True,
        ),
        # What decides is loaded from another buffer than that which gets the fetched values.
        (_TICKET.format(store=".global", to="%l3", load=".global", at="%l4"), False),
        (_TICKET.format(store=".global", to="ticket", load=".global", at="%l4"), False),
        # The fetched values are stored after the loop.
        (
            "L:\natom.global.add.u32 %r2, [%l0], 1;\nld.global.u32 %r3, [%l3];\n"
            "setp.lt.u32 %p1, %r3, %r0;\n@%p1 bra L;\nst.global.u32 [%l3], %r2;\n",
            False,
        ),
        # The loop ends by values that the kernel stores, none of which is fetched.
        (
            "L:\natom.global.add.u32 %r2, [%l0], 1;\nst.global.u32 [%l3], %r1;\n"
            "bar.sync 0;\nld.global.u32 %r3, [%l3];\nadd.u32 %r1, %r3, 1;\n"
            "setp.lt.u32 %p1, %r1, %r0;\n@%p1 bra L;\n",
            False,
        ),
        # A queue of shared memory belongs to one block.
        (
            "L:\natom.shared.add.u32 %r2, [%r1], 1;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra L;\n",
            False,
        ),
    ],
)
def test_a_queue_is_a_fetched_value_that_decides_whether_its_loop_goes_on(
    body: str, on_queue: bool
) -> None:
    dependence = analyse(body)
    assert dependence.on_queue == on_queue
    assert not (on_queue and dependence.waiting)


def test_a_loop_of_polls_is_entered_by_the_code_before_it() -> None:
    function = function_of(work_kernels.make_copy_kernel())
    (loop,) = dependence_of(function).polling
    assert loop.entry not in loop.words
    assert function.lines[loop.entry] < function.lines[loop.words[0]]
    assert not EFFECTS[function.code[loop.entry].op].ends
