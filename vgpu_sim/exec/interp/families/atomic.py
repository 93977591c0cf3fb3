"""Atomic updates: lanes with one address update it in lane order; fences need no action.

Lanes with different addresses are independent, so the first lane of every address is executed in
one step, then the second, and so on. If many lanes have the same address, associative updates
are combined first: prefixes of all operands give each lane's former value.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.accesses import addresses_of, check_alignment, fault
from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.exec.interp.numbers.formats import (
    FORMATS,
    canonical,
    flush,
    is_nan,
    narrow,
    sum_to_odd,
    widen,
)
from vgpu_sim.exec.interp.operands import read_bits, signed_view, write_bits
from vgpu_sim.isa import DataType, Instruction, Op, Update
from vgpu_sim.isa.families.atomic import (
    MBARRIER_COUNT,
    MBARRIER_EXPECTED,
    MBARRIER_PENDING,
    MBARRIER_TRANSACTION_MASK,
    MBARRIER_TRANSACTIONS,
    is_pair,
)

_STEPS_IN_TURN = 64  # with more lanes per address than this, updates are combined first
_LANES_PER_STEP = 32  # as many lanes, one by one, take as long as one step of all of them in numpy
_Lanes = NDArray[np.int64]
_Apply = Callable[[Bits, Bits], Bits]


def _second(m: Bits, b: Bits) -> Bits:
    return b


def _increment(m: Bits, b: Bits) -> Bits:
    return np.where(m >= b, m.dtype.type(0), m + m.dtype.type(1))


def _decrement(m: Bits, b: Bits) -> Bits:
    return np.where((m == 0) | (m > b), b, m - m.dtype.type(1))


def _arrive(m: Bits, b: Bits) -> Bits:
    """Subtract arrivals from an mbarrier's pending count."""
    first, counts = np.uint64(MBARRIER_PENDING), np.uint64(MBARRIER_COUNT)
    pending = ((m >> first) - b) & counts
    return _end_phase(m & ~(counts << first) | pending << first)


def _transact(m: Bits, b: Bits) -> Bits:
    """Add to an mbarrier's signed number of bytes of transactions."""
    first, bits = np.uint64(MBARRIER_TRANSACTIONS), np.uint64(MBARRIER_TRANSACTION_MASK)
    waiting = ((m >> first) + b) & bits
    return _end_phase(m & ~(bits << first) | waiting << first)


def _end_phase(m: Bits) -> Bits:
    """Begin an mbarrier's next phase if its current one waits for nothing more."""
    first, later = np.uint64(MBARRIER_PENDING), np.uint64(MBARRIER_EXPECTED)
    bits = np.uint64(MBARRIER_TRANSACTION_MASK << MBARRIER_TRANSACTIONS)
    counts = np.uint64(MBARRIER_COUNT)
    complete = m & (counts << first | bits) == 0
    begins = m >> later & counts
    parity = (m & np.uint64(1)) ^ complete.astype(np.uint64)
    pending = np.where(complete, begins, m >> first & counts)
    state: Bits = begins << later | m & bits | pending << first | parity
    return state


def _drop(m: Bits, b: Bits) -> Bits:
    counts, later = np.uint64(MBARRIER_COUNT), np.uint64(MBARRIER_EXPECTED)
    begins = ((m >> later) - b) & counts
    return _arrive(m & ~(counts << later) | begins << later, b)


_INTEGER: Final[dict[Update, _Apply]] = {
    Update.AND: np.bitwise_and,
    Update.OR: np.bitwise_or,
    Update.XOR: np.bitwise_xor,
    Update.EXCH: _second,
    Update.ADD: np.add,
    Update.INC: _increment,
    Update.DEC: _decrement,
    Update.MIN: np.minimum,
    Update.MAX: np.maximum,
    Update.ARRIVE: _arrive,
    Update.DROP: _drop,
    Update.TX: _transact,
}
_MBARRIER = {Update.ARRIVE, Update.DROP, Update.TX}
_JOINABLE = frozenset(_INTEGER) - {Update.INC, Update.DEC} - _MBARRIER


def _as_signed(function: _Apply) -> _Apply:
    def apply(m: Bits, b: Bits) -> Bits:
        result: Bits = function(signed_view(m), signed_view(b)).view(m.dtype)  # type: ignore[arg-type]
        return result

    return apply


_NATIVE: Final[dict[DataType, np.dtype[np.floating]]] = {
    DataType.F32: np.dtype(np.float32),
    DataType.F64: np.dtype(np.float64),
}


def _sum(type_: DataType) -> _Apply:
    native = _NATIVE.get(type_)

    def apply(m: Bits, b: Bits) -> Bits:
        if native is None:
            return narrow(sum_to_odd(widen(m, type_), widen(b, type_)), type_)
        total: Bits = (m.view(native) + b.view(native)).view(m.dtype)
        return canonical(total, FORMATS[type_])

    return apply


def _extremum(type_: DataType, update: Update) -> _Apply:
    format_ = FORMATS[type_]

    def to_ordered_key(bits: Bits) -> Bits:
        sign = bits.dtype.type(format_.sign)
        result: Bits = np.where(bits >= sign, ~bits, bits | sign)
        return result

    def apply(m: Bits, b: Bits) -> Bits:
        less = to_ordered_key(m) < to_ordered_key(b)
        first = less if update is Update.MIN else ~less
        first = is_nan(b, format_) | (first & ~is_nan(m, format_))
        return canonical(np.where(first, m, b), format_)

    return apply


def _function(type_: DataType, update: Update) -> _Apply:
    if not type_.is_float:
        plain = _INTEGER[update]
        extreme = update in (Update.MIN, Update.MAX)
        return _as_signed(plain) if type_.is_signed and extreme else plain
    return _sum(type_) if update is Update.ADD else _extremum(type_, update)


def _update(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    """Update every element; write the former values to the destinations, if any."""
    type_ = instruction.type
    first = addresses_of(warp, instruction, mask)
    check_alignment(warp, instruction, mask, first)
    elements = instruction.vector
    if is_pair(instruction):
        return _update_pairs(warp, instruction, mask, first)
    operands = [
        np.broadcast_to(read_bits(warp, source, type_.bits), mask.shape)[mask]
        for source in instruction.srcs[1:]
    ]
    former_values = []
    for index in range(elements):
        addresses = first + np.uint64(index * type_.bytes)
        values = [operands[index], *operands[elements:]]  # CAS has one element and two operands
        try:
            former_values.append(_update_element(warp, instruction, mask, addresses, values))
        except BadAddress as error:
            raise fault(warp, instruction, mask, addresses, error.address) from error
    for destination, former_value in zip(instruction.dsts, former_values, strict=False):
        spread = np.zeros(mask.shape, dtype=unsigned_dtype(type_.bits))
        spread[mask] = former_value
        write_bits(warp, destination, spread, type_, mask)
    return first


def _update_pairs(warp: Lanes, instruction: Instruction, mask: Mask, first: Words) -> Words:
    """Exchange, or compare and exchange, 128 bits for every active lane, one lane after another."""
    half = instruction.type.bytes
    operands = [np.broadcast_to(read_bits(warp, s, 64), mask.shape) for s in instruction.srcs[1:]]
    former_values = np.zeros((2, *mask.shape), dtype=np.uint64)
    for lane, address in zip(np.flatnonzero(mask), first, strict=True):
        alone = np.zeros(mask.shape, dtype=np.bool_)
        alone[lane] = True
        places = [np.array([address + np.uint64(n * half)], dtype=np.uint64) for n in range(2)]
        try:
            former_pair = [warp.spaces.load(instruction.space, at, alone, half)[0] for at in places]
            former_values[:, lane] = former_pair
            *expected, low, high = (values[lane] for values in operands)
            if expected and list(former_pair) != expected:
                low, high = former_pair
            for at, value in zip(places, (low, high), strict=True):
                warp.spaces.store(
                    instruction.space, at, alone, np.array([value], dtype=np.uint64), half
                )
        except BadAddress as error:
            raise fault(warp, instruction, alone, places[0], int(address)) from error
    for destination, values in zip(instruction.dsts, former_values, strict=True):
        write_bits(warp, destination, values, instruction.type, mask)
    return first


def _update_element(
    warp: Lanes, instruction: Instruction, mask: Mask, addresses: Words, operands: list[Bits]
) -> Bits:
    """Update one element for every active lane; return the former value that each lane found."""
    type_, update, spaces = instruction.type, instruction.update, warp.spaces
    assert update is not None
    dtype, width = unsigned_dtype(type_.bits), type_.bytes
    places = spaces.identities(instruction.space, addresses, mask, width)
    _, firsts, owners = np.unique(places, return_index=True, return_inverse=True)
    order = np.sort(firsts)  # the first lane at each place, in lane order
    owners = np.searchsorted(order, firsts)[owners]
    those = np.zeros(mask.shape, dtype=np.bool_)
    those[np.flatnonzero(mask)[order]] = True
    values = spaces.load(instruction.space, addresses[order], those, width).astype(dtype)
    if update is Update.CAS:
        former_values = _swap_in_order(values, owners, *operands)
    elif update in _JOINABLE and not type_.is_float and _most(owners) > _STEPS_IN_TURN:
        former_values = _join_updates(_function(type_, update), values, owners, operands[0])
    else:
        outside = places[order] & np.uint64(1) == 0
        flushed = outside if (type_, update) == (DataType.F32, Update.ADD) else None
        former_values = _apply_in_order(
            _function(type_, update), values, owners, operands[0], flushed
        )
    spaces.store(instruction.space, addresses[order], those, values.astype(np.uint64), width)
    return former_values


def _ranks(owners: _Lanes) -> tuple[_Lanes, _Lanes]:
    """Return the lanes sorted by owner, and each one's rank among the lanes of its owner."""
    order = np.argsort(owners, kind="stable")
    ordered = owners[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[begins, len(ordered)])
    return order, np.arange(len(ordered)) - np.repeat(begins, counts)


def _most(owners: _Lanes) -> int:
    return int(np.bincount(owners).max(initial=0))


def _distinct_owners(owners: _Lanes) -> Iterator[_Lanes]:
    """Yield sets of lanes with distinct owners, in lane order for each owner."""
    order, ranks = _ranks(owners)
    by_rank = order[np.argsort(ranks, kind="stable")]
    yield from np.split(by_rank, np.cumsum(np.bincount(ranks))[:-1])


def _apply_in_order(
    function: _Apply, values: Bits, owners: _Lanes, operand: Bits, flushed: Mask | None
) -> Bits:
    """Update ``values`` in place, lane by lane for each owner; return the former values.

    ``flushed`` marks the owners whose subnormal numbers are flushed; None means no owner.
    """
    former_values = np.empty(len(owners), dtype=values.dtype)
    for lanes in _distinct_owners(owners):
        at = owners[lanes]
        m, b = values[at], operand[lanes]
        former_values[lanes] = m
        if flushed is None:
            values[at] = function(m, b)
            continue
        format_, zeros = FORMATS[DataType.F32], flushed[at]
        m, b = (np.where(zeros, flush(x, format_), x) for x in (m, b))
        result = function(m, b)
        values[at] = np.where(zeros, flush(result, format_), result)
    return former_values


def _swap_in_order(values: Bits, owners: _Lanes, expected: Bits, replacements: Bits) -> Bits:
    if _most(owners) * _LANES_PER_STEP > len(owners):
        return _swap_lane_by_lane(values, owners, expected, replacements)
    former_values = np.empty(len(owners), dtype=values.dtype)
    for lanes in _distinct_owners(owners):
        at = owners[lanes]
        former_values[lanes] = values[at]
        values[at] = np.where(values[at] == expected[lanes], replacements[lanes], values[at])
    return former_values


def _swap_lane_by_lane(values: Bits, owners: _Lanes, expected: Bits, replacements: Bits) -> Bits:
    """Return what ``_swap_in_order`` does, without numpy's cost per step, as where all lanes of a
    warp take one lock.
    """
    current, former_values = values.tolist(), []
    lanes = zip(owners.tolist(), expected.tolist(), replacements.tolist(), strict=True)
    for owner, compared, stored in lanes:
        former_value = current[owner]
        former_values.append(former_value)
        if former_value == compared:
            current[owner] = stored
    values[:] = current
    return np.array(former_values, dtype=values.dtype)


def _join_updates(function: _Apply, values: Bits, owners: _Lanes, operand: Bits) -> Bits:
    """Combine updates in steps of 1, 2, 4, ... lanes of an owner: prefixes of their operands."""
    order, ranks = _ranks(owners)
    prefix, at = operand[order].astype(values.dtype), owners[order]
    distance = 1
    while distance <= ranks.max():
        later = np.flatnonzero(ranks >= distance)
        prefix[later] = function(prefix[later - distance], prefix[later])
        distance *= 2
    start = values[at]
    ordered_values = start.copy()
    later = np.flatnonzero(ranks > 0)
    ordered_values[later] = function(start[later], prefix[later - 1])
    last = np.flatnonzero(np.r_[ranks[1:] == 0, True])
    values[at[last]] = function(start[last], prefix[last])
    former_values = np.empty_like(ordered_values)
    former_values[order] = ordered_values
    return former_values


def _fence(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    """Do nothing: lanes execute instructions in order, and each sees the current memory."""


SEMANTICS = {Op.ATOM: _update, Op.RED: _update, Op.FENCE: _fence}
