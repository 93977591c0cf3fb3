"""Integer sums in global memory, combined before memory is updated.

An addition with an unused result and no ordering may be delayed; otherwise each lane of a
histogram would pay for one locked instruction per element. The code that runs a launch's blocks
one after another keeps a table of sums on its stack, indexed by the address. If another address
occupies the entry, this sum is added to memory directly. The remaining sums are written to
memory before the code ends, before a version without the table runs, and before loads that may
read them.

The key of an entry is the lane's unclamped address. An address has been clamped and accessed
before it enters the table, so that a hit needs neither, and a fault is reported at its own
instruction.

Only kernels that do nothing else to global memory use the table, and only if they neither wait
nor poll: the order in which sums arrive is then unobservable.
"""

from collections.abc import Callable, Iterable
from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Operation, SsaFunction, used_values
from vgpu_sim.exec.jit.progress import polling_loops
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.launch import CONTEXT_APERTURE_LIMIT
from vgpu_sim.isa import EFFECTS, Op, Space, Update

TABLE: Final = "%table"
TABLE_BYTES: Final = 8256
_SUMS, _LEAST, _END = 4096, 8192, 8200  # offsets in the table
# The key of an empty entry: not an address of memory, and not a valid key for its entry.
_NONE, _NONE_AT_FIRST, _LEAST_ADDRESS = 0, 8, 4096
_ENTER, _SETTLE = "combine.enter", "combine.settle"
_PRIVATE: Final = (Space.SHARED, Space.LOCAL, Space.PARAM)


def is_sum(ssa: SsaFunction, node: Operation) -> bool:
    """Return whether ``node`` is an atomic addition of an integer to global memory, and its result
    is unused.
    """
    instruction = node.instruction
    return (
        instruction.op in (Op.RED, Op.ATOM)
        and instruction.update is Update.ADD
        and instruction.space is Space.GLOBAL
        and instruction.vector == 1
        and not instruction.type.is_float
        and used_values(ssa).isdisjoint(node.results)
    )


def element_bits(analysis: Analysis) -> int:
    """Return the bit width of the sums that a kernel may delay.

    Return 0 if no sum may be delayed, or if the delay would not make the kernel faster.
    """
    ssa, widths, spread = analysis.ssa, set(), False
    if polling_loops.polls_or_pauses(ssa):
        return 0
    for block in ssa.blocks.values():
        for node in block.nodes:
            if not isinstance(node, Operation):
                continue
            effects, instruction = EFFECTS[node.instruction.op], node.instruction
            if instruction.op in (Op.RED, Op.ATOM) and is_sum(ssa, node):
                widths.add(instruction.type.bits)
                address = analysis.shape(node.sources[0], block.index, 64)
                spread = spread or isinstance(address, Vector)
            elif effects.accesses and instruction.space not in _PRIVATE:
                if effects.writes or instruction.volatile:
                    return 0
            elif effects.visible and not effects.accesses:
                return 0
    return widths.pop() if spread and len(widths) == 1 else 0


class Table:
    """Emits the operations of one function on its table of delayed sums.

    The table consists of 512 addresses, their sums, and the range that contains all addresses.
    """

    def __init__(self, text: Text, bits: int) -> None:
        self._text = text
        self._scalar, self._bytes = integer(bits), bits // 8
        text.shared.helpers.update(_helpers(self._scalar, self._bytes))
        with text.in_prologue():
            text.do(f"{TABLE} = alloca [{TABLE_BYTES} x i8], align 64")
            for offset in range(0, _SUMS, 64):
                text.do(f"store <8 x i64> zeroinitializer, ptr {self._at(offset)}, align 64")
            text.do(f"store i64 {_NONE_AT_FIRST}, ptr {TABLE}, align 8")
            text.do(f"store i64 -1, ptr {self._at(_LEAST)}, align 8")
            text.do(f"store i64 0, ptr {self._at(_END)}, align 8")

    def add(self, address: str, confined: Callable[[], str], value: str) -> None:
        """Emit code that adds ``value`` to the memory at ``address``, now or later.

        ``confined`` emits the clamped pointer to that memory, and returns its name.
        """
        text, scalar = self._text, self._scalar
        offset = text.let(f"and i64 {text.let(f'shl i64 {address}, 1')}, {_SUMS - 8}")
        place = text.let(f"getelementptr i8, ptr {TABLE}, i64 {offset}")
        slot_address = self._read("i64", place)
        hit, miss, enters, occupied, onward = map(
            text.label, ("waits", "other", "enters", "taken", "added")
        )
        text.branch(text.let(f"icmp eq i64 {slot_address}, {address}"), hit, miss)
        text.begin(hit, follows=True)
        with text.known.open_scope():
            at = text.let(f"getelementptr i8, ptr {place}, i64 {_SUMS}")
            total = text.let(f"add {scalar} {self._read(scalar, at)}, {value}")
            text.do(f"store {scalar} {total}, ptr {at}, align 8")
            text.jump(onward)
        text.begin(miss, follows=True)
        with text.known.open_scope():
            pointer = confined()
            free = text.let(f"icmp ult i64 {slot_address}, {_LEAST_ADDRESS}")
            text.branch(free, enters, occupied)
        text.begin(enters, follows=True)
        with text.known.open_scope():
            self._read(scalar, pointer, volatile=True)  # the access that may fault
            arguments = f"ptr {TABLE}, i64 {address}, {scalar} {value}"
            text.do(f"call void @{_ENTER}({arguments})")
            text.jump(onward)
        text.begin(occupied, follows=True)
        with text.known.open_scope():
            align = f"align {self._bytes}"
            text.do(
                f"{text.name()} = atomicrmw add ptr {pointer}, {scalar} {value} monotonic, {align}"
            )
            text.jump(onward)
        text.begin(onward, follows=True)
        text.known.invalidate_loads()

    def write_sums(self) -> None:
        """Emit code that writes all delayed sums to memory."""
        self._text.do(f"call void @{_SETTLE}(ptr %ctx, ptr {TABLE})")

    def write_sums_before(self, reads: Iterable[tuple[str, bool, int]]) -> None:
        """Emit code that writes all delayed sums to memory before a read that may need one of them.

        The code writes the sums only if one of ``reads`` overlaps the range of the table's
        addresses. Each entry of ``reads`` is a pointer or a vector of pointers, a flag that is
        set for a vector, and the number of bytes that are read at each pointer.
        """
        text = self._text
        lowest, end = (self._read("i64", self._at(offset)) for offset in (_LEAST, _END))
        met = ""
        for pointer, vector, size in reads:
            address_type, flags, places = (text.type_of(t, vector) for t in ("i64", "i1", "ptr"))
            low, high = ((text.splat("i64", n) if vector else n) for n in (lowest, end))
            address = text.let(f"ptrtoint {places} {pointer} to {address_type}")
            behind = text.let(f"add {address_type} {address}, {text.const(size, 'i64', vector)}")
            meets = text.let(
                f"and {flags} {text.let(f'icmp ult {address_type} {address}, {high}')},"
                f" {text.let(f'icmp ugt {address_type} {behind}, {low}')}"
            )
            if vector:
                name = f"llvm.vector.reduce.or.v{text.width}i1"
                meets = text.call("i1", name, (flags, meets))
            met = text.let(f"or i1 {met}, {meets}") if met else meets
        settles, onward = text.label("settles"), text.label("onward")
        text.branch(met, settles, onward)
        text.begin(settles, follows=True)
        with text.known.open_scope():
            self.write_sums()
            text.jump(onward)
        text.begin(onward, follows=True)

    def _at(self, offset: int) -> str:
        return self._text.let(f"getelementptr i8, ptr {TABLE}, i64 {offset}")

    def _read(self, scalar: str, pointer: str, *, volatile: bool = False) -> str:
        """Load a value of the table, even if the text before has loaded it.

        The value differs when the code runs again.
        """
        name, how = self._text.name(), "load volatile" if volatile else "load"
        self._text.do(f"{name} = {how} {scalar}, ptr {pointer}, align {min(8, self._bytes)}")
        return name


def _helpers(scalar: str, size: int) -> dict[str, str]:
    arguments = f"ptr {TABLE}, i64 %address, {scalar} %sum"
    enter = f"""define internal void @{_ENTER}({arguments}) #1 {{
entry:
  %twice = shl i64 %address, 1
  %offset = and i64 %twice, {_SUMS - 8}
  %place = getelementptr i8, ptr %table, i64 %offset
  %target = getelementptr i8, ptr %place, i64 {_SUMS}
  store i64 %address, ptr %place, align 8
  store {scalar} %sum, ptr %target, align 8
  %least = getelementptr i8, ptr %table, i64 {_LEAST}
  %a = load i64, ptr %least, align 8
  %lower = call i64 @llvm.umin.i64(i64 %a, i64 %address)
  store i64 %lower, ptr %least, align 8
  %end = getelementptr i8, ptr %table, i64 {_END}
  %b = load i64, ptr %end, align 8
  %behind = add i64 %address, {size}
  %higher = call i64 @llvm.umax.i64(i64 %b, i64 %behind)
  store i64 %higher, ptr %end, align 8
  ret void
}}"""
    settle = f"""define internal void @{_SETTLE}(ptr %ctx, ptr %table) #1 {{
entry:
  %base = load i64, ptr %ctx, align 1
  %where = getelementptr i8, ptr %ctx, i64 {CONTEXT_APERTURE_LIMIT}
  %limit = load i64, ptr %where, align 1
  %origin = inttoptr i64 %base to ptr
  br label %loop
loop:
  %turn = phi i64 [ 0, %entry ], [ %following, %next ]
  %offset = and i64 %turn, {_SUMS - 8}
  %place = getelementptr i8, ptr %table, i64 %offset
  %address = load i64, ptr %place, align 8
  %free = icmp ult i64 %address, {_LEAST_ADDRESS}
  br i1 %free, label %next, label %taken
taken:
  %first = icmp eq i64 %offset, 0
  %none = select i1 %first, i64 {_NONE_AT_FIRST}, i64 {_NONE}
  store i64 %none, ptr %place, align 8
  %at = getelementptr i8, ptr %place, i64 {_SUMS}
  %sum = load {scalar}, ptr %at, align 8
  %distance = sub i64 %address, %base
  %confined = call i64 @llvm.umin.i64(i64 %distance, i64 %limit)
  %target = getelementptr i8, ptr %origin, i64 %confined
  %before = atomicrmw add ptr %target, {scalar} %sum monotonic, align {size}
  br label %next
next:
  %following = add i64 %turn, 8
  %more = icmp ult i64 %following, {_SUMS}
  br i1 %more, label %loop, label %done
done:
  %least = getelementptr i8, ptr %table, i64 {_LEAST}
  store i64 -1, ptr %least, align 8
  %end = getelementptr i8, ptr %table, i64 {_END}
  store i64 0, ptr %end, align 8
  ret void
}}"""
    return {_ENTER: enter, _SETTLE: settle}
