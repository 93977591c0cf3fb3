"""Random kernels whose threads synchronize: phases of divergent work separated by barriers, and
warp collectives.

In each phase a thread stores into its own slot of shared memory and, after a barrier, reads a
neighbour's; another barrier ends the phase, so that the value read does not depend on the order
of threads. Phases occur in loops with a uniform trip count. Some threads exit early. A quarter
of the kernels also have functions and local arrays.
"""

from support.kernels.random_kernels import collectives, functions, kernels, updates
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.flow import Flow
from support.kernels.random_kernels.kernels import Kernel
from support.kernels.random_kernels.program import GENERAL, Program

_SLOT_BYTES = 16
_STORES = (
    "st.shared.b32 [%own], {r0};",
    "st.shared.v2.b32 [%own+8], {{{r0}, {r1}}};",
    "st.shared.v4.b32 [%own], {{{r0}, {r1}, {r2}, {r3}}};",
    "st.shared.b64 [%own+8], {d0};",
    "st.shared.b16 [%own+2], {h0};",
    "st.volatile.shared.b32 [%own+4], {r0};",
)
_LOADS = (
    "ld.shared.b32 {r0}, [%next];",
    "ld.shared.v2.b32 {{{r0}, {r1}}}, [%next+8];",
    "ld.shared.v4.b32 {{{r0}, {r1}, {r2}, {r3}}}, [%next];",
    "ld.shared.b64 {d0}, [%next+8];",
    "ld.shared.s16 {r0}, [%next+2];",
    "ld.volatile.shared.u8 {r0}, [%next+13];",
)
_BARRIERS = ("bar.sync 0;", "bar.sync 0;", "barrier.sync 0;", "barrier.sync.aligned 0;")


def generate(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    dice = Dice(seed, 5)
    plain = kernels.generate(seed)
    x, y, z = plain.block
    threads, program = x * y * z, Program(dice)
    kernels.prelude(program, plain.grid, plain.block)
    for line in (
        "mad.lo.u32 %linear, %tid.z, %ntid.y, %tid.y;",
        "mad.lo.u32 %linear, %linear, %ntid.x, %tid.x;",
        "mov.u32 %own, tile;",
        f"mad.lo.u32 %own, %linear, {_SLOT_BYTES}, %own;",
    ):
        program.add(line)
    called = functions.definitions(dice) if dice.one_in(4) else []
    for _ in range(dice.number(1, 3)):
        _phases(program, threads, len(called))
    kernels.dump(program)
    declarations = (
        " .reg .b32 %linear, %own, %next;",
        f" .shared .align 16 .b8 tile[{threads * _SLOT_BYTES}];",
        *updates.declarations(),
        *(functions.DECLARATIONS if called else ()),
    )
    head = kernels.header(program)
    entry = next(i for i, line in enumerate(head) if ".entry" in line)
    lines = [*head[:entry], *called, *head[entry:], *declarations, *program.declarations()]
    lines += [*program.lines, " ret;", "}", ""]
    return Kernel(seed, plain.grid, plain.block, plain.words, False, "\n".join(lines))


def _phases(program: Program, threads: int, called: int) -> None:
    """Write one or two phases, most often in a loop."""
    dice = program.dice
    again, turns, more = program.label(), program.temporary(32), program.temporary(1)
    in_loop = not dice.one_in(3)
    if in_loop:
        program.add(f"mov.u32 {turns}, {dice.number(1, 3)};")
        program.place(again)
    for _ in range(dice.number(1, 2)):
        _phase(program, threads, called)
    if in_loop:
        program.add(f"sub.u32 {turns}, {turns}, 1;")
        program.add(f"setp.ne.u32 {more}, {turns}, 0;")
        program.add(f"@{more} bra {again};")


def _phase(program: Program, threads: int, called: int) -> None:
    dice, met = program.dice, program.label()
    if called:
        dice.pick((functions.call, functions.call, lambda p, _: functions.local(p)))(
            program, called
        )
    Flow(program, dice.number(2, 8), met).body()
    program.place(met)
    for _ in range(dice.number(0, 2)):
        collectives.meeting(program)
    for _ in range(dice.number(1, 2)):
        program.add(program.guard() + dice.pick(_STORES).format(**_registers(dice)))
    for _ in range(dice.number(0, 3)):
        dice.pick((updates.own, updates.together, updates.together))(program)
    program.add(dice.pick(_BARRIERS))
    program.add(f"add.u32 %next, %linear, {dice.pick((1, 1, 2, 31, 32, 33, threads - 1))};")
    if dice.one_in(2):
        program.add("xor.b32 %next, %next, 1;")
    program.add(f"rem.u32 %next, %next, {threads};")
    program.add("mov.u32 %own, tile;")
    program.add(f"mad.lo.u32 %next, %next, {_SLOT_BYTES}, %own;")
    program.add(f"mad.lo.u32 %own, %linear, {_SLOT_BYTES}, %own;")
    for _ in range(dice.number(1, 2)):
        program.add(program.guard() + dice.pick(_LOADS).format(**_registers(dice)))
    if dice.one_in(2):
        updates.look(program)
    program.add(dice.pick(_BARRIERS))


def _registers(dice: Dice) -> dict[str, str]:
    """Return distinct general registers for the names in the texts above."""
    first = dice.number(0, GENERAL[32] - 1)
    return {f"r{i}": f"%r{(first + i) % GENERAL[32]}" for i in range(4)} | {
        "d0": f"%d{dice.number(0, GENERAL[64] - 1)}",
        "h0": f"%h{dice.number(0, GENERAL[16] - 1)}",
    }
