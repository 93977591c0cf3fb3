"""One PTX thread after another, one instruction at a time: the meaning of a text, and no speed.

Each thread of a block runs from the first statement to its end, or to a barrier, before the next
one begins; when all have come to a barrier or ended, all go on. So this is the meaning of a kernel
only if its threads talk to each other across barriers alone, and that is held to: a thread that
touches another's part of memory, or a byte of the block's shared memory that another has stored to
since the last barrier (or stores to one that another has read), raises ``Race``.
"""

from collections.abc import Callable

from scalar_ptx import numbers
from scalar_ptx.memory import Fault, Race, Region, Shared
from scalar_ptx.text import (
    WIDTHS,
    Address,
    Inverse,
    Kernel,
    Number,
    Operand,
    Several,
    Statement,
    SyntaxFault,
)
from scalar_ptx.threads import SPECIALS, Shape, indices, special_values

_M64 = (1 << 64) - 1
_M32 = (1 << 32) - 1
_CACHES = frozenset(["weak", "ca", "cg", "cs", "cv", "wb", "wt", "nc", "volatile"])
_SPACES = frozenset(["global", "const", "param", "shared"])


class Endless(Exception):
    """A thread took more steps than it was allowed."""


_Step = Callable[[list[int]], int | None]
_BARRIER = -1  # what a step returns where its thread waits


class Machine:
    """A kernel made ready to run over some memory.

    ``symbols`` are the addresses of the module's variables. ``aligned`` says whether a misaligned
    access is a fault.
    """

    def __init__(
        self,
        kernel: Kernel,
        regions: list[Region],
        parameters: bytes,
        symbols: dict[str, int] | None = None,
        *,
        aligned: bool = True,
        max_steps: int = 100_000,
    ) -> None:
        self._kernel = kernel
        self._regions = regions
        self._parameters = parameters
        self._symbols = symbols or {}
        self._aligned = aligned
        self._max_steps = max_steps
        self._thread = 0
        self._shared = Shared(0)
        self._initial = [0] * (len(kernel.registers) + len(SPECIALS))
        self._index = {name: i for i, name in enumerate((*kernel.registers, *SPECIALS))}
        self._width = {**kernel.registers, **dict.fromkeys(SPECIALS, 32)}
        self._constants: dict[int, int] = {}
        self._code = [self._guarded(statement) for statement in kernel.statements]

    def run(self, grid: Shape, block: Shape) -> None:
        """Run all threads, x fastest, block by block.

        Raises:
            Fault, Race, Endless: see there.
        """
        self._thread = 0
        faults: list[Fault] = []
        for ctaid in indices(grid):
            self._run_block(ctaid, grid, block, faults)
        if faults:
            raise Fault(frozenset().union(*(f.codes for f in faults)), str(faults[0]))

    def _run_block(self, ctaid: Shape, grid: Shape, block: Shape, faults: list[Fault]) -> None:
        """Run all threads up to a barrier, then all that came to it up to the next."""
        first, self._shared = self._thread, Shared(self._kernel.shared_bytes)
        going = []
        for thread, values in enumerate(special_values(ctaid, grid, block), first):
            registers = list(self._initial)
            for name, value in zip(SPECIALS, values, strict=True):
                registers[self._index[name]] = value
            going.append((thread, registers, 0))
        while going:
            self._shared.begin()
            waiting = []
            for thread, registers, place in going:
                self._thread = thread
                try:
                    stopped = self._run(registers, place)
                except Fault as fault:
                    faults.append(fault)
                    continue
                if stopped is not None:
                    waiting.append((thread, registers, stopped))
            if faults and waiting:
                break  # threads that faulted do not come to the barrier
            if len({place for _, _, place in waiting}) > 1:
                raise Race  # at different barriers of one number: right, but not for this machine
            going = waiting
        self._thread = first + block[0] * block[1] * block[2]

    def _run(self, registers: list[int], place: int) -> int | None:
        """Run a thread to its end, or to where it goes on after a barrier."""
        code, end = self._code, len(self._code)
        for _ in range(self._max_steps):
            if place >= end:
                return None
            predicate, wanted, step = code[place]
            place += 1
            if predicate is None or registers[predicate] == wanted:
                target = step(registers)
                if target == _BARRIER:
                    return place
                if target is not None:
                    place = target
        raise Endless

    # --- making statements ready ---

    def _guarded(self, statement: Statement) -> tuple[int | None, int, _Step]:
        step = self._step(statement)
        if statement.guard is None:
            return None, 1, step
        name, negated = statement.guard
        return self._predicate(name), int(not negated), step

    def _step(self, statement: Statement) -> _Step:
        opcode, *modifiers = statement.words
        if opcode in ("ret", "exit"):
            return lambda _: len(self._code)
        if opcode == "trap":
            return _trap
        if opcode in ("bar", "barrier"):
            if modifiers not in (["sync"], ["sync", "aligned"]) or statement.guard is not None:
                raise SyntaxFault(f"{statement}")
            if statement.operands != (Number(0),):
                raise SyntaxFault(f"operands of {statement}")
            return lambda _: _BARRIER
        if opcode == "bra":
            (label,) = statement.operands
            if label not in self._kernel.labels:
                raise SyntaxFault(f"no label {label!r}")
            target = self._kernel.labels[str(label)]
            return lambda _: target
        if opcode in ("ld", "st"):
            return self._access(statement)
        if opcode == "setp":
            return self._setp(modifiers, statement.operands)
        if opcode == "selp":
            bits = WIDTHS[modifiers[-1]]
            to, a, b, chooser = statement.operands
            d, x, y = self._target(to, bits), self._source(a, bits), self._source(b, bits)
            p = self._predicate(chooser)
            return lambda r: r.__setitem__(d, r[x] if r[p] else r[y])
        if opcode == "cvta":
            return self._plain(numbers.function(("mov", "b64")), statement.operands)
        if opcode == "mov" and any(isinstance(o, Several) for o in statement.operands):
            return self._pieces(WIDTHS[modifiers[-1]], *statement.operands)
        return self._plain(
            numbers.function(statement.words), statement.operands, wider=opcode == "cvt"
        )

    def _plain(
        self, what: numbers.Function, operands: tuple[Operand, ...], *, wider: bool = False
    ) -> _Step:
        if len(operands) != len(what.sources) + 1:
            raise SyntaxFault("wrong number of operands")
        first, *rest = operands
        if what.bits == 1:
            d, extend = self._predicate(first), None
        else:
            d = self._target(first, what.bits, wider=wider)
            extend = self._extension(first, what.bits, what.signed)
        sources = [
            self._predicate(o) if bits == 1 else self._source(o, bits, wider=wider)
            for o, bits in zip(rest, what.sources, strict=True)
        ]
        compute = what.compute
        if wider or extend:
            mask, (x,) = (1 << what.sources[0]) - 1, sources
            if extend:
                return lambda r: r.__setitem__(d, extend(compute(r[x] & mask)))
            return lambda r: r.__setitem__(d, compute(r[x] & mask))
        if len(sources) == 1:
            (x,) = sources
            return lambda r: r.__setitem__(d, compute(r[x]))
        if len(sources) == 2:
            x, y = sources
            return lambda r: r.__setitem__(d, compute(r[x], r[y]))
        x, y, z = sources
        return lambda r: r.__setitem__(d, compute(r[x], r[y], r[z]))

    def _setp(self, modifiers: list[str], operands: tuple[Operand, ...]) -> _Step:
        bits, test = numbers.comparison(modifiers)
        first, a, b, *third = operands
        targets = first.parts if isinstance(first, Several) else (first,)
        places = [None if t == "_" else self._predicate(t) for t in targets]
        x, y = self._source(a, bits), self._source(b, bits)
        combine = modifiers[1] if third else ""
        with_what = third[0] if third else Number(0)
        inverted = isinstance(with_what, Inverse)
        c = self._predicate(with_what.name if isinstance(with_what, Inverse) else with_what)

        def step(r: list[int]) -> None:
            outcome = test(r[x], r[y])
            with_ = bool(r[c]) != inverted
            for place, result in zip(places, (outcome, not outcome), strict=False):
                if combine == "and":
                    result = result and with_
                elif combine == "or":
                    result = result or with_
                elif combine == "xor":
                    result = result != with_
                if place is not None:
                    r[place] = int(result)

        return step

    def _pieces(self, bits: int, to: Operand, value: Operand) -> _Step:
        if isinstance(value, Several):
            piece = bits // len(value.parts)
            sources = [self._source(part, piece) for part in value.parts]
            d = self._target(to, bits)
            return lambda r: r.__setitem__(
                d, sum(r[s] << (i * piece) for i, s in enumerate(sources))
            )
        assert isinstance(to, Several)
        piece = bits // len(to.parts)
        places = [None if p == "_" else self._target(p, piece) for p in to.parts]
        x = self._source(value, bits)

        def step(r: list[int]) -> None:
            whole = r[x]
            for i, place in enumerate(places):
                if place is not None:
                    r[place] = whole >> (i * piece) & ((1 << piece) - 1)

        return step

    # --- operands ---

    def _constant(self, value: int) -> int:
        if value not in self._constants:
            self._constants[value] = len(self._initial)
            self._initial.append(value)
        return self._constants[value]

    def _predicate(self, operand: Operand) -> int:
        if isinstance(operand, Number):
            return self._constant(int(operand.value != 0))
        if not isinstance(operand, str) or self._width.get(operand) != 1:
            raise SyntaxFault(f"{operand!r} is no predicate")
        return self._index[operand]

    def _source(self, operand: Operand, bits: int, *, wider: bool = False) -> int:
        if isinstance(operand, Number):
            if operand.float_bits not in (0, bits):
                raise SyntaxFault(f"{operand!r} as {bits} bits")
            return self._constant(operand.value & ((1 << bits) - 1))
        if isinstance(operand, str) and operand in self._kernel.shared:
            return self._constant(self._kernel.shared[operand])
        if isinstance(operand, str) and operand in self._symbols:
            return self._constant(self._symbols[operand])
        return self._target(operand, bits, wider=wider)

    def _target(self, operand: Operand, bits: int, *, wider: bool = False) -> int:
        width = self._width.get(operand, 0) if isinstance(operand, str) else 0
        if width == bits or (wider and width > bits):
            return self._index[str(operand)]
        raise SyntaxFault(f"{operand!r} as {bits} bits")

    def _extension(self, operand: Operand, bits: int, signed: bool) -> Callable[[int], int] | None:
        mask = (1 << self._width[str(operand)]) - 1
        if not signed or mask >> bits == 0:
            return None
        return lambda value: numbers.signed(value, bits) & mask

    # --- memory ---

    def _access(self, statement: Statement) -> _Step:
        opcode, *modifiers = statement.words
        kind = modifiers[-1]
        size, signed = WIDTHS[kind] // 8, kind[0] == "s"
        odd = set(modifiers[:-1]) - _CACHES - _SPACES - {"v2", "v4"}
        if odd:
            raise SyntaxFault(f"{opcode} with {odd}")
        data, where = statement.operands if opcode == "ld" else statement.operands[::-1]
        parts = data.parts if isinstance(data, Several) else (data,)
        vector = next((int(word[1]) for word in modifiers if word in ("v2", "v4")), 1)
        if len(parts) != vector or not isinstance(where, Address):
            raise SyntaxFault(f"operands of {statement}")
        if opcode == "st":
            return self._store(statement, parts, where, size)
        places = [None if p == "_" else self._target(p, size * 8, wider=True) for p in parts]
        extends = [None if p == "_" else self._extension(p, size * 8, signed) for p in parts]
        read = self._reader(statement, where, size * vector)

        def step(r: list[int]) -> None:
            raw = read(r)
            for i, (place, extend) in enumerate(zip(places, extends, strict=True)):
                if place is not None:
                    value = int.from_bytes(raw[i * size : i * size + size], "little")
                    r[place] = extend(value) if extend else value

        return step

    def _reader(self, statement: Statement, where: Address, size: int) -> Callable[..., bytes]:
        if "param" in statement.words:
            offset, _ = self._kernel.parameters[str(where.base)]
            raw = self._parameters[offset + where.displacement :][:size]
            return lambda _: raw
        is_shared = "shared" in statement.words
        address_of = self._shared_address(where) if is_shared else self._address(where)

        def read(r: list[int]) -> bytes:
            address = address_of(r)
            self._check_aligned(address, size, statement)
            if is_shared:
                return self._shared.load(self._thread, address, size)
            region, offset = self._find(address, size, statement)
            self._check_share(region, offset, size, write=False)
            return bytes(region.data[offset : offset + size])

        return read

    def _check_aligned(self, address: int, size: int, statement: Statement) -> None:
        if self._aligned and address % size:
            raise Fault(frozenset({716}), f"{address:#x}: {statement}")

    def _shared_address(self, where: Address) -> Callable[[list[int]], int]:
        """Addresses of shared memory have 32 bits, in registers of 32 or 64."""
        if isinstance(where.base, str) and where.base in self._kernel.shared:
            known = self._kernel.shared[where.base] + where.displacement
            return lambda _: known & _M32
        if isinstance(where.base, Number):
            known = where.base.value + where.displacement
            return lambda _: known & _M32
        base, displacement = self._target(where.base, 32, wider=True), where.displacement
        return lambda r: (r[base] + displacement) & _M32

    def _store(
        self, statement: Statement, parts: tuple[Operand, ...], where: Address, size: int
    ) -> _Step:
        is_shared = "shared" in statement.words
        sources = [self._source(p, size * 8, wider=True) for p in parts]
        mask, total = (1 << 8 * size) - 1, size * len(parts)
        address_of = self._shared_address(where) if is_shared else self._address(where)

        def step(r: list[int]) -> None:
            raw = b"".join((r[s] & mask).to_bytes(size, "little") for s in sources)
            address = address_of(r)
            self._check_aligned(address, total, statement)
            if is_shared:
                self._shared.store(self._thread, address, raw)
                return
            region, offset = self._find(address, total, statement)
            self._check_share(region, offset, total, write=True)
            region.data[offset : offset + total] = raw

        return step

    def _address(self, where: Address) -> Callable[[list[int]], int]:
        displacement = where.displacement
        if isinstance(where.base, str) and self._width.get(where.base) == 32:
            base = self._index[where.base]
        else:
            base = self._source(where.base, 64)
        return lambda r: (r[base] + displacement) & _M64

    def _find(self, address: int, size: int, statement: Statement) -> tuple[Region, int]:
        for region in self._regions:
            offset = address - region.base
            if 0 <= offset <= len(region.data) - size:
                return region, offset
        raise Fault(frozenset({700}), f"{address:#x}: {statement}")

    def _check_share(self, region: Region, offset: int, size: int, *, write: bool) -> None:
        offset -= region.shares_from
        if not region.share_bytes or offset + size <= 0:
            if write:
                raise Race
            return
        first, last = offset // region.share_bytes, (offset + size - 1) // region.share_bytes
        if first != self._thread or last != self._thread:
            raise Race


def _trap(_: list[int]) -> int | None:
    raise Fault(frozenset({719}), "trap")
