"""Random kernels whose pointers move in counted loops; they test the bounds of trip counts.

Counters step by large powers of two and their multiples, and start at any number; loops exit at
the header, in the middle or at the latch, by any comparison with any limit, including a value
from memory. At all exits of a loop a pointer has moved equally often: the proof of the clamp
does not relate a lane's path to the value with which it exits. The kernels are compiled, not
run. Pointers move so far that only a correct trip count confines them.
"""

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.kernels import Kernel

_BLOCKS = ((64, 1, 1), (32, 4, 1))
_STEPS = (1 << 28, 1 << 29, 1 << 30, 1 << 31, 3 << 28, 5 << 28, -(1 << 28), 1 << 20, 1 << 16, 1)
_STARTS = ("0", "7", "%a", "%aligned", "%lane", "0x80000000", "-5")
_LIMITS = ("0", "100", "0x10000000", "0x7fffffff", "0x80000000", "0xf0000000", "-1", "%a", "%high")
_DISTANCES = (4, 64, 4096, 1 << 20, 1 << 30, 1 << 33, -8, -4096)

_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 a) {
 .reg .pred %past<9>, %found<9>, %apart; .reg .b32 %count<9>;
 .reg .b64 %p, %q, %far; .reg .b32 %a, %lane, %x, %high, %aligned;
 ld.param.u64 %p, [p]; ld.param.u64 %q, [q]; ld.param.u32 %a, [a];
 mov.u32 %lane, %tid.x; mov.u32 %x, 0; setp.gt.u32 %apart, %lane, %a;
 shl.b32 %high, %a, 28; and.b32 %aligned, %a, 0xf0000000;
 mul.wide.u32 %far, %lane, 4; add.s64 %p, %p, %far;
"""


class _Loops:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.made = 0

    def one(self, depth: int) -> list[str]:
        """Return a loop's lines."""
        dice, n = self.dice, self.made
        self.made += 1
        pointer = dice.pick(("%p", "%q"))
        body = [f" ld.global.u32 %x, [{pointer}+{dice.pick((0, 4, 1024))}];"]
        body.append(" st.global.u32 [%q], %x;")
        if dice.one_in(3):
            body = [f" @%apart bra SKIP{n};", *body, f"SKIP{n}:"]
        if depth and dice.one_in(3):
            body += self.one(depth - 1)
        if dice.one_in(8):
            body.append(" bar.sync 0;")
        operands = [f"%count{n}", dice.pick(_LIMITS)]
        if dice.one_in(4):
            operands.reverse()
        how = f"{dice.pick(('lt', 'le', 'gt', 'ge', 'ne', 'eq'))}.{dice.pick(('u32', 's32'))}"
        leave = [f" setp.{how} %past{n}, {', '.join(operands)};"]
        leave.append(f" @{dice.pick(('', '!'))}%past{n} bra DONE{n};")
        found = []
        if dice.one_in(4):
            found = [f" ld.global.u32 %x, [%q]; setp.eq.u32 %found{n}, %x, 7;"]
            found.append(f" @%found{n} bra DONE{n};")
        step = f" add.u32 %count{n}, %count{n}, {dice.pick(_STEPS)};"
        move = f" add.s64 {pointer}, {pointer}, {dice.pick(_DISTANCES)};"
        order = dice.pick(
            (
                (leave, body, found, [step, move]),
                (body, found, leave, [step, move]),
                (body, [step, move], leave),
            )
        )
        lines = [line for part in order for line in part]
        return [f" mov.u32 %count{n}, {dice.pick(_STARTS)};", f"LOOP{n}:", *lines,
                f" bra LOOP{n};", f"DONE{n}:"]  # fmt: skip


def generate(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    dice = Dice(seed, 9)
    loops = _Loops(dice)
    lines = [line for _ in range(dice.number(1, 2)) for line in loops.one(1)]
    text = "\n".join((_HEAD + "\n".join(lines), " ret;", "}", ""))
    return Kernel(seed, (2, 1, 1), dice.pick(_BLOCKS), (1, 1, 1, 1), True, text)
