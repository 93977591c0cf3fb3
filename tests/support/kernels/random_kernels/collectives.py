"""Random collectives of warps: by all lanes, in tiles, from two branches, in the branch of a vote.

They are emitted only where every thread of the block that has not ended arrives.
"""

from support.kernels.random_kernels.program import PREDICATES, Program

_SHUFFLES = ("up", "down", "bfly", "idx")
_CLAMPS = (31, 31, 0, 0x1C1F, 0x181F, 0x101F, 0x1E00)
_REDUCTIONS = ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32")
_REDUCTIONS += ("and.b32", "or.b32", "xor.b32")
_ALL = "0xffffffff"


def meeting(program: Program) -> None:
    """Write a collective of some or all lanes of a warp."""
    dice = program.dice
    shape = dice.number(0, 7)
    if shape < 3:
        program.add(_one(program, _ALL, _kind(program)))
    elif shape < 5:
        _in_tiles(program)
    elif shape == 5:
        _from_two_sides(program)
    else:
        _who_voted(program)


def _in_tiles(program: Program) -> None:
    size, tile = program.dice.pick((1, 2, 4, 8, 16, 16)), program.temporary(32)
    program.add(f"and.b32 {tile}, %laneid, {32 - size};")
    program.add(f"shl.b32 {tile}, {(1 << size) - 1}, {tile};")
    for _ in range(program.dice.number(1, 2)):
        program.add(_one(program, tile, _kind(program)))


def _from_two_sides(program: Program) -> None:
    """Emit one collective in both branches: the lanes meet although they have diverged."""
    other, join, kind = program.label(), program.label(), _kind(program)
    program.add(f"{program.condition()}bra {other};")
    program.add(_one(program, _ALL, kind))
    program.add(f"bra {join};")
    program.place(other)
    program.add(_one(program, _ALL, kind))
    program.place(join)


def _who_voted(program: Program) -> None:
    over, ballot = program.label(), program.temporary(32)
    chosen = program.predicate()
    program.add(f"vote.sync.ballot.b32 {ballot}, {chosen}, {_ALL};")
    program.add(f"@!{chosen} bra {over};")
    program.add(_one(program, ballot, _kind(program), spare=chosen))
    if program.dice.one_in(2):
        program.add(_one(program, ballot, _kind(program), spare=chosen))
    program.place(over)


def _kind(program: Program) -> str:
    dice = program.dice
    kind = dice.number(0, 9)
    if kind < 4:
        return f"shfl.sync.{dice.pick(_SHUFFLES)}.b32"
    if kind < 6:
        return f"vote.sync.{dice.pick(('all.pred', 'any.pred', 'uni.pred', 'ballot.b32'))}"
    if kind < 8:
        return f"redux.sync.{dice.pick(_REDUCTIONS)}"
    return f"match.{dice.pick(('any', 'all'))}.sync.{dice.pick(('b32', 'b64'))}"


def _one(program: Program, members: str, kind: str, spare: str = "") -> str:
    """Return a collective that does not change the predicate ``spare``."""
    dice = program.dice
    number = program.register(32)
    flag = dice.pick([p for p in (f"%p{i}" for i in range(PREDICATES)) if p != spare])
    opcode = kind.split(".")[0]
    if opcode == "shfl":
        way = dice.pick((str(dice.number(0, 31)), program.register(32)))
        clamp = dice.pick((str(dice.pick(_CLAMPS)), program.register(32), "31"))
        return f"{kind} {number}|{flag}, {program.register(32)}, {way}, {clamp}, {members};"
    if opcode == "vote":
        to = number if kind.endswith("b32") else flag
        return f"{kind} {to}, {dice.pick(('', '!'))}{program.predicate()}, {members};"
    if opcode == "redux":
        return f"{kind} {number}, {program.register(32)}, {members};"
    value = program.register(64 if kind.endswith("b64") else 32)
    to = f"{number}|{flag}" if ".all." in kind else number
    return f"{kind} {to}, {value}, {members};"
