"""Random statements: assignments, memory accesses with another type than the store's, and all kinds
of control flow.

Every loop ends: its counter is private, and blocks with arbitrary jumps consume fuel.
"""

from collections.abc import Callable

from support.fuzzers.random_ir import scalars
from support.fuzzers.random_ir.conversions import convert, plain_bits
from support.fuzzers.random_ir.frames import BYTES, MAX_COST, Frame
from support.fuzzers.random_ir.values import condition, element, value

_IN_BYTES = ("i16", "i32", "i64", "float", "double", "i24", "i48", "i128", "half")
_OUT_OF_BYTES = ("i8", "i16", "i32", "i64", "i128")
_LAST = BYTES - 32  # where 16 bytes may begin, so that parts of stored values are read, too
_DEAR = MAX_COST // 100  # enclosing trips from which on no loop is emitted


def statements(frame: Frame, count: int, depth: int) -> None:
    """Write ``count`` statements, nested at most ``depth`` levels deep."""
    for _ in range(count):
        _numbered(frame, _drawn(frame, depth), depth)


def store(frame: Frame, kind: str, text: str, pointer: str) -> None:
    """Write a store that may be omitted, as statements may."""
    _numbered(frame, lambda f, _: f.line(f"store {kind} {text}, ptr {pointer}"), 0)


def _numbered(frame: Frame, write: Callable[[Frame, int], None], depth: int) -> None:
    """Write a statement, and remove it if it is to be omitted: the later choices stay the same."""
    module = frame.module
    number, start = module.statements, len(frame.lines)
    module.statements += 1
    write(frame, depth)
    if number in module.without:
        del frame.lines[start:]


def _drawn(frame: Frame, depth: int) -> Callable[[Frame, int], None]:
    drawn = frame.dice.number(1, 100)
    if depth <= 0 or drawn <= 42 or frame.cost > MAX_COST:
        return _assign
    shares = ((50, _put), (56, _bytes), (60, _move), (76, _branch), (86, _loop), (94, _switch))
    for share, kind in shares:
        if drawn <= share:
            return _assign if kind is _loop and frame.turns > _DEAR else kind
    return _branch if frame.turns > _DEAR else _tangle


def _assign(frame: Frame, _: int) -> None:
    kind = frame.pick_kind()
    frame.line(f"store {kind} {value(frame, kind, 3)}, ptr {frame.pick_variable(kind)}")


# --- memory ---


def _put(frame: Frame, depth: int) -> None:
    arrays = frame.own_arrays()
    if not arrays:
        return _assign(frame, depth)
    array = frame.dice.pick(arrays)
    at = element(frame, array, 1)
    return frame.line(f"store {array.kind} {value(frame, array.kind, 2)}, ptr {at}")


def _bytes(frame: Frame, _: int) -> None:
    """Write a value at any byte, and read one of another type near it."""
    dice, kind = frame.dice, frame.dice.pick(_IN_BYTES)
    text = value(frame, kind, 2)
    if not scalars.is_integer(kind):
        text, kind = plain_bits(frame, kind, text), f"i{scalars.bits(kind)}"
    place = str(dice.number(0, _LAST - 1))
    if dice.one_in(2):
        place = frame.value(f"and i32 {value(frame, 'i32', 1)}, {_LAST - 1}")
    at = frame.value(f"getelementptr i8, ptr {frame.bytes}, i32 {place}")
    frame.line(f"store {kind} {text}, ptr {at}, align 1")
    kind, to = dice.pick(_OUT_OF_BYTES), frame.pick_kind()
    at = frame.value(f"getelementptr i8, ptr {frame.bytes}, i32 {dice.number(0, _LAST - 1)}")
    read = convert(frame, kind, frame.value(f"load {kind}, ptr {at}, align 1"), to)
    frame.line(f"store {to} {read}, ptr {frame.pick_variable(to)}")


def _move(frame: Frame, depth: int) -> None:
    """Fill a part of an array, or copy one to another that it may overlap."""
    dice, declared = frame.dice, frame.module.declared
    arrays = [array for array in frame.own_arrays() if array.stride == 1]
    if not arrays:
        return _assign(frame, depth)
    array = dice.pick(arrays)
    each = scalars.bits(array.kind) // 8
    size = array.count * each
    if dice.percent(40) and scalars.is_integer(array.kind):
        declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        byte, count = value(frame, "i8", 1), str(dice.number(1, size))
        if dice.one_in(2):
            count = frame.value(f"and i64 {value(frame, 'i64', 1)}, {size - 1}")
        said = f"ptr {array.name}, i8 {byte}, i64 {count}, i1 false"
        return frame.line(f"call void @llvm.memset.p0.i64({said})")
    declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    a, b = (dice.number(0, array.count - 1) for _ in range(2))
    to, source = (
        frame.value(f"getelementptr {array.kind}, ptr {array.name}, i64 {index}")
        for index in (a, b)
    )
    said = f"ptr {to}, ptr {source}, i64 {(array.count - max(a, b)) * each}, i1 false"
    return frame.line(f"call void @llvm.memmove.p0.p0.i64({said})")


# --- control flow ---


def _leave(frame: Frame, label: str) -> None:
    """End a block with a branch to ``label``, or sometimes out of an enclosing statement."""
    if frame.exits and frame.dice.percent(15):
        chosen = condition(frame, 1)
        out = frame.dice.pick(frame.exits)
        frame.line(f"br i1 {chosen}, label %{out}, label %{label}")
    else:
        frame.line(f"br label %{label}")


def _branch(frame: Frame, depth: int) -> None:
    yes, no, end = (frame.label() for _ in range(3))
    frame.line(f"br i1 {condition(frame, 1)}, label %{yes}, label %{no}")
    frame.begin(yes)
    statements(frame, frame.dice.number(1, 3), depth - 1)
    _leave(frame, end)
    frame.begin(no)
    if frame.dice.percent(60):
        statements(frame, frame.dice.number(1, 2), depth - 1)
    _leave(frame, end)
    frame.begin(end)


def _loop(frame: Frame, depth: int) -> None:
    dice, counter = frame.dice, frame.alloca("i32")
    head, body, step, end = (frame.label() for _ in range(4))
    most = dice.pick((1, 3, 7))
    trips = frame.value(f"and i32 {value(frame, 'i32', 1)}, {most}")
    if dice.percent(40):
        most = dice.pick((1, 2, 3, 4, 5, 9))
        trips = str(most)
    frame.line(f"store i32 0, ptr {counter}")
    frame.line(f"br label %{head}")
    frame.begin(head)
    turn = frame.value(f"load i32, ptr {counter}")
    more = frame.value(f"icmp {dice.pick(('ult', 'slt'))} i32 {turn}, {trips}")
    frame.line(f"br i1 {more}, label %{body}, label %{end}")
    frame.begin(body)
    frame.exits += [end, step]
    frame.turns *= most
    _add_counter(frame, turn)
    statements(frame, dice.number(1, 3), depth - 1)
    _leave(frame, step)
    frame.begin(step)
    turn = frame.value(f"load i32, ptr {counter}")
    turn = frame.value(f"add i32 {turn}, {dice.pick((1, 1, 1, 2))}")
    frame.line(f"store i32 {turn}, ptr {counter}")
    frame.line(f"br label %{head}")
    frame.turns //= most
    del frame.exits[-2:]
    frame.begin(end)


def _add_counter(frame: Frame, turn: str) -> None:
    """Make the results depend on the loop's counter."""
    kind = frame.dice.pick(("i32", "i64"))
    pointer = frame.pick_variable(kind)
    before = frame.value(f"load {kind}, ptr {pointer}")
    turn = convert(frame, "i32", turn, kind)
    frame.line(f"store {kind} {frame.value(f'add {kind} {before}, {turn}')}, ptr {pointer}")


def _switch(frame: Frame, depth: int) -> None:
    dice, kind = frame.dice, frame.dice.pick(("i32", "i64", "i8", "i16"))
    count, base = dice.pick((3, 5, 8, 12)), dice.pick((0, 0, 3))
    dense = dice.percent(60)
    keys = [base + place * (1 if dense else dice.number(2, 7)) for place in range(count)]
    keys = list(dict.fromkeys(keys))
    chosen = value(frame, kind, 1)
    chosen = frame.value(f"urem {kind} {chosen}, {count + 2 if dense else 90}")
    end, other = frame.label(), frame.label()
    ways = [frame.label() for _ in range(dice.number(2, min(count, 6)))]
    cases = " ".join(f"{kind} {key}, label %{dice.pick(ways)}" for key in keys)
    frame.line(f"switch {kind} {chosen}, label %{other} [ {cases} ]")
    for way, after in zip(ways, [*ways[1:], end], strict=True):
        frame.begin(way)
        statements(frame, dice.number(1, 2), depth - 1)
        if dice.percent(25):
            frame.line(f"br label %{after}")
        else:
            _leave(frame, end)
    frame.begin(other)
    if dice.one_in(2):
        statements(frame, 1, 0)
    frame.line(f"br label %{end}")
    frame.begin(end)


def _tangle(frame: Frame, depth: int) -> None:
    """Emit blocks that branch to any of each other, which structured control flow cannot."""
    dice, fuel, most = frame.dice, frame.alloca("i32"), frame.dice.pick((5, 9, 17))
    blocks, end = [frame.label() for _ in range(dice.number(3, 7))], frame.label()
    frame.line(f"store i32 {most}, ptr {fuel}")
    first, second = dice.pick(blocks), dice.pick(blocks)
    frame.line(f"br i1 {condition(frame, 1)}, label %{first}, label %{second}")
    frame.turns *= most
    for block in blocks:
        frame.begin(block)
        left = frame.value(f"load i32, ptr {fuel}")
        left = frame.value(f"sub i32 {left}, 1")
        frame.line(f"store i32 {left}, ptr {fuel}")
        empty, further = frame.value(f"icmp sle i32 {left}, 0"), frame.label()
        statements(frame, dice.number(1, 2), min(depth - 1, 1))
        frame.line(f"br i1 {empty}, label %{end}, label %{further}")
        frame.begin(further)
        if dice.percent(70):
            chosen, first, second = condition(frame, 1), dice.pick(blocks), dice.pick(blocks)
            frame.line(f"br i1 {chosen}, label %{first}, label %{second}")
        else:
            chosen = frame.value(f"urem i32 {value(frame, 'i32', 1)}, 7")
            cases = " ".join(f"i32 {k}, label %{dice.pick([*blocks, end])}" for k in range(6))
            frame.line(f"switch i32 {chosen}, label %{dice.pick(blocks)} [ {cases} ]")
    frame.turns //= most
    frame.begin(end)
