"""Functions that a program calls: by name and through pointers, recursive, with structures.

A call is a source of values (``frames.Source``). Its cost is known when it is emitted: every
callee was emitted before, except the function itself, whose recursion depth is bounded.
"""

from support.fuzzers.random_ir.frames import MAX_COST, Callee, Frame, Module, Source, Typed
from support.fuzzers.random_ir.statements import statements
from support.fuzzers.random_ir.values import condition, value

STRUCTURES = {
    "%S0": ("i32", "i8", "i64"),
    "%S1": ("double", "i16", "float", "i1"),
    "%S2": ("i8", "i128", "half", "i32"),
}
_GIVEN = ("i32", "i64", "i8", "float", "double", "i1", "i128", "half", "i16")
_DEEPEST = 7
_CALLS_OF_A_CHAIN, _CALLS_OF_A_TREE = 8, 37  # for functions with one recursive call, and with two
_BY_VALUE = "byval({}) align 16"
Sources = tuple[Source, ...]


def call(frame: Frame, depth: int) -> Typed | None:
    """Call a function whose cost fits here, if there is one."""
    room = (MAX_COST - frame.cost) // frame.turns
    callees = [callee for callee in frame.module.callees if callee.cost < room]
    if not callees or frame.calls_left <= 0:
        return None
    frame.calls_left -= 1
    callee = frame.dice.pick(callees)
    frame.cost += callee.cost * frame.turns
    if callee.how == "plain":
        return callee.gives, _call_plain(frame, callee, depth)
    if callee.how == "recursive":
        times = frame.value(f"and i32 {value(frame, 'i32', depth)}, {_DEEPEST}")
        kind = callee.gives
        said = f"i32 {times}, {kind} {value(frame, kind, depth)}"
        return kind, frame.value(f"call {kind} @{callee.name}({said})")
    (structure,) = callee.takes
    fields = frame.module.structures[structure]
    if callee.how == "by value":
        place = frame.alloca(f"{structure}, align 16")
        for index, kind in enumerate(fields):
            at = frame.value(f"getelementptr {structure}, ptr {place}, i32 0, i32 {index}")
            frame.line(f"store {kind} {value(frame, kind, depth)}, ptr {at}")
        said = f"ptr {_BY_VALUE.format(structure)} {place}, i32 {value(frame, 'i32', depth)}"
        return callee.gives, frame.value(f"call {callee.gives} @{callee.name}({said})")
    made = _structure(frame, structure, depth)
    said = f"{structure} {made}, i32 {value(frame, 'i32', depth)}"
    got = frame.value(f"call {structure} @{callee.name}({said})")
    index = frame.dice.number(0, len(fields) - 1)
    return fields[index], frame.value(f"extractvalue {structure} {got}, {index}")


def _call_plain(frame: Frame, callee: Callee, depth: int) -> str:
    said = ", ".join(f"{kind} {value(frame, kind, depth)}" for kind in callee.takes)
    called, like = f"@{callee.name}", (callee.how, callee.gives, callee.takes)
    alike = [c for c in frame.module.callees if (c.how, c.gives, c.takes) == like and c != callee]
    if alike and frame.dice.percent(60):
        other, chosen = frame.dice.pick(alike), condition(frame, depth)
        frame.cost += other.cost * frame.turns
        called = frame.value(f"select i1 {chosen}, ptr {called}, ptr @{other.name}")
    return frame.value(f"call {callee.gives} {called}({said})")


def _structure(frame: Frame, structure: str, depth: int) -> str:
    made = "zeroinitializer"
    for index, kind in enumerate(frame.module.structures[structure]):
        field = value(frame, kind, depth)
        made = frame.value(f"insertvalue {structure} {made}, {kind} {field}, {index}")
    return made


# --- definitions ---


def add(module: Module, sources: Sources) -> None:
    """Add a function that later ones may call."""
    how = module.dice.pick(("plain", "plain", "plain", "structure", "by value", "recursive"))
    name = f"f{len(module.callees)}"
    writers = {"plain": _plain, "structure": _of_structure, "by value": _by_value}
    writers["recursive"] = _recursive
    module.callees.append(writers[how](module, name, sources))


def _attributes(module: Module) -> str:
    return module.dice.pick(("noinline", "noinline", "", "alwaysinline")) + " nounwind"


def _plain(module: Module, name: str, sources: Sources) -> Callee:
    dice = module.dice
    before = [callee for callee in module.callees if callee.how == "plain"]
    if before and dice.one_in(2):  # of one type, so that pointers can select one
        gives, takes = before[-1].gives, before[-1].takes
    else:
        gives = dice.pick(_GIVEN)
        takes = tuple(dice.pick(_GIVEN) for _ in range(dice.number(1, 4)))
    parameters = [(kind, f"%p{index}") for index, kind in enumerate(takes)]
    frame = Frame(module, parameters, sources)
    statements(frame, dice.number(1, 3), 2)
    result = value(frame, gives, 3)
    said = ", ".join(" ".join(parameter) for parameter in parameters)
    head = f"define internal {gives} @{name}({said}) {_attributes(module)}"
    frame.define(head, name, f"ret {gives} {result}")
    return Callee("plain", name, gives, takes, frame.cost)


def _of_structure(module: Module, name: str, sources: Sources) -> Callee:
    structure = module.dice.pick(list(module.structures))
    frame = Frame(module, [("i32", "%k")], sources)
    for index, kind in enumerate(module.structures[structure]):
        place = frame.alloca(kind)
        field = frame.value(f"extractvalue {structure} %s, {index}")
        frame.line(f"store {kind} {field}, ptr {place}")
        frame.adopt(kind, place)
    statements(frame, module.dice.number(1, 2), 2)
    result = _structure(frame, structure, 2)
    head = f"define internal {structure} @{name}({structure} %s, i32 %k) {_attributes(module)}"
    frame.define(head, name, f"ret {structure} {result}")
    return Callee("structure", name, structure, (structure,), frame.cost)


def _by_value(module: Module, name: str, sources: Sources) -> Callee:
    structure = module.dice.pick(list(module.structures))
    gives = module.dice.pick(("i32", "i64", "float"))
    frame = Frame(module, [("i32", "%k")], sources)
    for index, kind in enumerate(module.structures[structure]):
        frame.adopt(kind, frame.value(f"getelementptr {structure}, ptr %s, i32 0, i32 {index}"))
    statements(frame, module.dice.number(1, 2), 2)
    result = value(frame, gives, 3)
    takes = f"ptr {_BY_VALUE.format(structure)} %s, i32 %k"
    head = f"define internal {gives} @{name}({takes}) {_attributes(module)}"
    frame.define(head, name, f"ret {gives} {result}")
    return Callee("by value", name, gives, (structure,), frame.cost)


def _recursive(module: Module, name: str, sources: Sources) -> Callee:
    dice = module.dice
    kind = dice.pick(("i64", "i32", "float", "double"))
    frame = Frame(module, [("i32", "%n"), (kind, "%x")], sources)
    statements(frame, dice.number(1, 2), 1)
    last, further = frame.label(), frame.label()
    ends = frame.value("icmp slt i32 %n, 1")
    frame.line(f"br i1 {ends}, label %{last}, label %{further}")
    frame.begin(last)
    frame.line(f"ret {kind} {value(frame, kind, 2)}")
    frame.begin(further)
    again, tree = _again(frame, name, kind, 1, value(frame, kind, 2)), dice.percent(40)
    if tree:
        second = _again(frame, name, kind, 3, again)
        operation = "fadd" if kind in ("float", "double") else "add"
        again = frame.value(f"{operation} {kind} {again}, {second}")
    operation = "fsub" if kind in ("float", "double") else "sub"
    result = frame.value(f"{operation} {kind} {again}, {value(frame, kind, 2)}")
    head = f"define internal {kind} @{name}(i32 %n, {kind} %x) noinline nounwind"
    frame.define(head, name, f"ret {kind} {result}")
    calls = _CALLS_OF_A_TREE if tree else _CALLS_OF_A_CHAIN
    return Callee("recursive", name, kind, ("i32", kind), frame.cost * calls)


def _again(frame: Frame, name: str, kind: str, less: int, given: str) -> str:
    times = frame.value(f"sub i32 %n, {less}")
    return frame.value(f"call {kind} @{name}(i32 {times}, {kind} {given})")
