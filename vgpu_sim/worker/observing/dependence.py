"""Analyses whether a kernel's control flow depends on values in memory, or on other threads.

Registers are treated as a whole, and the order of writes is ignored, so the analysis also
reports dependences that are only possible.
"""

from collections.abc import Iterable
from typing import Final

from vgpu_sim.exec import cfg
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Function,
    Instruction,
    Literal,
    Op,
    Predicate,
    Register,
    Space,
    Update,
    polls,
)
from vgpu_sim.records import dataclass
from vgpu_sim.worker.observing.regions import NO_REGIONS, Region, Regions, regions_of_accesses

Place = Register | Predicate
_COUNTING: Final = (Update.ADD, Update.INC, Update.DEC)
_ENTRY: Final = -1


@dataclass(frozen=True, slots=True)
class Polling:
    """A loop whose number of iterations is how often a thread looks until another thread, or a
    copy, has done something. ``words`` are its instructions. ``entry`` is an instruction that a
    thread executes once before each entry into the loop; -1 if the kernel begins with the loop.
    """

    words: tuple[int, ...]
    entry: int


@dataclass(frozen=True, slots=True)
class Dependence:
    """What a kernel's control flow depends on.

    ``on_memory`` is set if branches or addresses depend on values in memory. ``polling`` are the
    loops that poll memory, outer loops before inner ones. ``waiting`` holds the instructions of
    those of them in which a thread may wait for anything but an mbarrier object: what completes
    the phase of an mbarrier object, copies and arrivals, is part of the block's own work.
    ``on_queue`` is set if a value that a loop fetches from a global counter decides whether the
    loop goes on, so that the order in which blocks run divides the work among them.
    """

    on_memory: bool
    waiting: frozenset[int]
    polling: tuple[Polling, ...] = ()
    on_queue: bool = False


def dependence_of(function: Function) -> Dependence:
    """Return what a kernel's control flow depends on. If the control flow cannot be analysed, no
    loops are reported.
    """
    code = function.code
    loaded = _propagate(
        code,
        (
            place
            for instruction in code
            if EFFECTS[instruction.op].reads and instruction.space is not Space.PARAM
            for place in _written_places(instruction)
        ),
    )
    on_memory = any(
        (instruction.guard is not None and instruction.guard.predicate in loaded)
        or (
            EFFECTS[instruction.op].accesses
            and bool(instruction.srcs)
            and instruction.srcs[0] in loaded
        )
        for instruction in code
    )
    try:
        graph = cfg.build(function)
    except cfg.ControlFlowError:
        return Dependence(on_memory, frozenset())
    polling, waiting = _polling(function, graph)
    on_queue = any(_takes_from_queue(function, graph, header) for header in graph.loops)
    return Dependence(on_memory, waiting, polling, on_queue)


def polling_loops(function: Function) -> tuple[Polling, ...]:
    """Return the loops of a kernel that poll memory, outer loops before inner ones."""
    if not any(map(_looks, function.code)):
        return ()
    try:
        return _polling(function, cfg.build(function))[0]
    except cfg.ControlFlowError:
        return ()


def _polling(function: Function, graph: cfg.Cfg) -> tuple[tuple[Polling, ...], frozenset[int]]:
    """Return the loops that poll memory, and the instructions of those that wait for anything but
    an mbarrier object.
    """
    code, waits = function.code, mbarrier_waits(function)
    polling: list[Polling] = []
    waiting: set[int] = set()
    order = {block: place for place, block in enumerate(graph.reverse_post_order)}
    for header in sorted(graph.loops, key=lambda block: order[block]):
        words = _words(graph, graph.loops[header])
        polled = {word for word in words if _looks(code[word])}
        if not polled:
            continue
        if not _decides(function, graph, header, _propagate(code, _results(code, polled))):
            continue
        is_first = header == graph.reverse_post_order[0]
        entry = _ENTRY if is_first else graph.blocks[graph.idom[header]].end - 1
        polling.append(Polling(words, entry))
        if _decides(function, graph, header, _propagate(code, _results(code, polled - waits))):
            waiting.update(words)
    return tuple(polling), frozenset(waiting)


def mbarrier_waits(function: Function) -> frozenset[int]:
    """Return the loads by which ``mbarrier.test_wait`` and ``try_wait`` read the phase of an
    mbarrier object: the line of the program that contains the load also extracts its lowest bit.
    """
    code, lines = function.code, function.lines
    loads = set()
    for word, load in enumerate(code[:-4]):
        if not (load.op is Op.LD and load.volatile and load.type is DataType.B64):
            continue
        fence, change, extract = code[word + 1], code[word + 2], code[word + 3]
        if (
            (fence.op, change.op, extract.op) == (Op.FENCE, Op.XOR, Op.AND)
            and lines[word : word + 4].count(lines[word]) == 4
            and extract.srcs[1] == Literal(1)
            and change.srcs[0] in load.dsts
        ):
            loads.add(word)
    return frozenset(loads)


def _words(graph: cfg.Cfg, blocks: Iterable[int]) -> tuple[int, ...]:
    return tuple(word for block in sorted(blocks) for word in graph.blocks[block].words)


def _results(code: tuple[Instruction, ...], words: Iterable[int]) -> Iterable[Place]:
    return (place for word in words for place in _written_places(code[word]))


def _decides(function: Function, graph: cfg.Cfg, header: int, places: set[Place]) -> bool:
    """Return whether a branch of a loop, but of none within it, depends on one of these places."""
    own = (block for block in graph.loops[header] if graph.innermost_loop[block] == header)
    branches = (function.code[word] for word in _words(graph, own))
    return any(
        branch.guard is not None and branch.guard.predicate in places
        for branch in branches
        if EFFECTS[branch.op].leaves
    )


def _takes_from_queue(function: Function, graph: cfg.Cfg, header: int) -> bool:
    """Return whether the result of an atomic operation in a loop decides if the loop goes on.

    The value may pass through memory: a thread fetches it for its block. A loop that only repeats
    a compare-and-swap until it succeeds takes no work.
    """
    code = function.code
    words = _words(graph, graph.loops[header])
    fetches = {word for word in words if _fetches(code[word])}
    fetches -= {
        word
        for word in fetches
        if code[word].update is Update.CAS
        and graph.innermost_loop[graph.block_of_word[word]] == header
    }
    if not fetches:
        return False
    places = _propagate(code, _results(code, fetches), regions_of_accesses(code, words))
    leaving = [
        graph.blocks[block].end - 1
        for block in graph.loops[header]
        if any(to not in graph.loops[header] for to in graph.blocks[block].successors)
    ]
    guards = (code[word].guard for word in leaving)
    return any(guard is not None and guard.predicate in places for guard in guards)


def _fetches(instruction: Instruction) -> bool:
    """True for an atomic operation that takes a value from a counter in global memory."""
    takes = instruction.update is Update.CAS or _counts(instruction)
    return takes and instruction.space in (Space.GLOBAL, Space.GENERIC)


def _counts(instruction: Instruction) -> bool:
    """True for an atomic operation that changes the value that it returns."""
    return (
        instruction.op is Op.ATOM
        and instruction.update in _COUNTING
        and instruction.srcs[1] != Literal(0)
    )


def _looks(instruction: Instruction) -> bool:
    """True if a loop around the instruction may wait for another thread: it polls, also by adding
    nothing. What counts gets another value each time, and so does not wait for one.
    """
    if instruction.op is Op.ATOM and instruction.update in _COUNTING:
        return not _counts(instruction)
    return polls(instruction)


def _written_places(instruction: Instruction) -> Iterable[Place]:
    if instruction.op is Op.RED:
        return ()
    return (place for place in instruction.dsts if place is not None)


def _propagate(
    code: tuple[Instruction, ...], sources: Iterable[Place], regions: Regions = NO_REGIONS
) -> set[Place]:
    """Return the registers and predicates whose values may depend on ``sources``, also by a store
    to one of the ``regions`` of memory and a load from there.
    """
    dependent_places = set(sources)
    stored: set[Region] = set()
    grew = bool(dependent_places)
    while grew:
        grew = False
        for word, instruction in enumerate(code):
            guard = instruction.guard.predicate if instruction.guard is not None else None
            accessed = regions.get(word, frozenset())
            loads = not stored.isdisjoint(accessed) and EFFECTS[instruction.op].reads
            if (
                guard in dependent_places
                or loads
                or any(source in dependent_places for source in instruction.srcs)
            ):
                if (
                    instruction.op is Op.ST
                    and any(src in dependent_places for src in instruction.srcs[1:])
                    and not accessed <= stored
                ):
                    grew = True
                    stored |= accessed
                added_places = {
                    place for place in instruction.dsts if place is not None
                } - dependent_places
                dependent_places |= added_places
                grew = grew or bool(added_places)
    return dependent_places
