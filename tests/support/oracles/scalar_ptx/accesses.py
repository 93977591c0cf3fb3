"""Loads and stores: which memory contains an address, and which threads may access it."""

from collections.abc import Callable

from support.oracles.scalar_ptx.memory import Fault, Race, Region, Shared
from support.oracles.scalar_ptx.operands import Operands, Step
from support.oracles.scalar_ptx.text import (
    WIDTHS,
    Address,
    Kernel,
    Number,
    Operand,
    Several,
    Statement,
    SyntaxFault,
)

_M64, _M32 = (1 << 64) - 1, (1 << 32) - 1
_CACHES = frozenset(["weak", "ca", "cg", "cs", "cv", "wb", "wt", "nc", "volatile"])
_WORDS = _CACHES | {"global", "const", "param", "shared", "local", "v2", "v4", "v8"}


class Accesses(Operands):
    """Steps that access memory of the running thread and of its block."""

    def __init__(
        self,
        kernel: Kernel,
        symbols: dict[str, int],
        regions: list[Region],
        parameters: bytes,
        *,
        aligned: bool,
    ) -> None:
        super().__init__(kernel, symbols)
        self._regions = regions
        self._parameters = parameters
        self._aligned = aligned
        self._thread = 0
        self._shared = Shared(0)
        self._own: dict[int, bytearray] = {}  # local memory of each thread

    def _access(self, statement: Statement) -> Step:
        opcode, *modifiers = statement.words
        kind = modifiers[-1]
        size, signed = WIDTHS[kind] // 8, kind[0] == "s"
        odd = set(modifiers[:-1]) - _WORDS
        if odd:
            raise SyntaxFault(f"{opcode} with {odd}")
        data, where = statement.operands if opcode == "ld" else statement.operands[::-1]
        parts = data.parts if isinstance(data, Several) else (data,)
        vector = next((int(word[1]) for word in modifiers if word in ("v2", "v4", "v8")), 1)
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
        is_shared, is_local = "shared" in statement.words, "local" in statement.words
        narrow = is_shared or is_local
        address_of = self._narrow_address(where) if narrow else self._address(where)

        def read(r: list[int]) -> bytes:
            address = address_of(r)
            self._check_aligned(address, size, statement)
            if is_local:
                return self._local_bytes(address, size)
            if is_shared:
                return self._shared.load(self._thread, address, size)
            region, offset = self._find(address, size, statement)
            self._check_share(region, offset, size, write=False)
            return bytes(region.data[offset : offset + size])

        return read

    def _check_aligned(self, address: int, size: int, statement: Statement) -> None:
        if self._aligned and address % size:
            raise Fault(frozenset({716}), f"{address:#x}: {statement}")

    def _local_bytes(self, address: int, size: int) -> bytes:
        own = self._own[self._thread]
        if address + size > len(own):
            raise Fault(frozenset({700}), f"local {address:#x}")
        return bytes(own[address : address + size])

    def _narrow_address(self, where: Address) -> Callable[[list[int]], int]:
        """Return how to read an address of shared or local memory: 32 bits in a register of 32 or
        64.
        """
        named = {**self._kernel.shared, **self._kernel.local}
        if isinstance(where.base, str) and where.base in named:
            known = named[where.base] + where.displacement
            return lambda _: known & _M32
        if isinstance(where.base, Number):
            known = where.base.value + where.displacement
            return lambda _: known & _M32
        base, displacement = self._target(where.base, 32, wider=True), where.displacement
        return lambda r: (r[base] + displacement) & _M32

    def _store(
        self, statement: Statement, parts: tuple[Operand, ...], where: Address, size: int
    ) -> Step:
        is_shared, is_local = "shared" in statement.words, "local" in statement.words
        narrow = is_shared or is_local
        sources = [self._source(p, size * 8, wider=True) for p in parts]
        mask, total = (1 << 8 * size) - 1, size * len(parts)
        address_of = self._narrow_address(where) if narrow else self._address(where)

        def step(r: list[int]) -> None:
            raw = b"".join((r[s] & mask).to_bytes(size, "little") for s in sources)
            address = address_of(r)
            self._check_aligned(address, total, statement)
            if is_local:
                self._local_bytes(address, total)
                self._own[self._thread][address : address + total] = raw
                return
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
