"""Address spaces: global memory, the shared memory of a lane's block, and its local memory.

Resident blocks' shared memories are consecutive in one array, and so are lanes' local memories;
a lane can access only its own block's, and its own.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.address_space import Memory, Words
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import Space
from vgpu_sim.isa.families.move import CLUSTER_RANK_SHIFT, FIRST_RANK_FIELD

_STRIDE_BYTES = 16  # as long as the longest access, so that each element is contained in its type
_UPPER = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_KIND_BITS, _SHARED, _LOCAL = np.uint64(2), np.uint64(1), np.uint64(3)
_NO_OWNERS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_DTYPES: dict[int, np.dtype[np.unsignedinteger]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


class Private:
    """Private memory of ``count`` owners: ``bytes_each`` bytes for each.

    An owner can access only its own part, and those of ``together`` consecutive owners of which it
    is one: bits 24 to 31 of such an address are 1 plus the owner's place among them. ``window`` is
    the generic address of this memory, a multiple of 2^32 and the same for all owners.
    """

    def __init__(
        self, space: Space, window: int, bytes_each: int, count: int, together: int = 0
    ) -> None:
        self.space = space
        self._together = together
        self.upper = np.uint64(window >> 32)
        self.bytes_each = bytes_each
        self._stride = -(-bytes_each // _STRIDE_BYTES) * _STRIDE_BYTES
        self._bytes = np.zeros(count * self._stride, dtype=np.uint8)

    def clear(self, first: int, end: int) -> None:
        """Clear the memory of the owners from ``first`` to ``end`` (exclusive).

        The next user of this memory then cannot read the data of the previous one.
        """
        self._bytes[first * self._stride : end * self._stride] = 0

    def pair(self, owner: int) -> range:
        """Return an owner and its neighbour, of which the first is at an even place among those
        together; an empty range if it has none.
        """
        place = owner % self._together if self._together else 0
        first = owner - place % 2
        return range(first, first + 2 if place - place % 2 + 1 < self._together else first)

    def part(self, owner: int) -> NDArray[np.uint8]:
        """Return the memory of an owner, which may be written."""
        return self._bytes[owner * self._stride :][: self.bytes_each]

    def load(self, addresses: Words, owners: NDArray[np.int64], width_bytes: int) -> Words:
        """Return one zero-extended value for each pair of an aligned address and its owner.

        Raises:
            BadAddress: some bytes at an address do not exist.
        """
        values = self._bytes.view(_DTYPES[width_bytes])[self.places(addresses, owners, width_bytes)]
        wide: Words = values.astype(np.uint64)
        return wide

    def store(
        self, addresses: Words, owners: NDArray[np.int64], values: Words, width_bytes: int
    ) -> None:
        """Store the low bytes of each value at its owner's address. If several values have the same
        owner and address, the last of them is stored.

        Raises:
            BadAddress: some bytes at an address do not exist.
        """
        places = self.places(addresses, owners, width_bytes)
        dtype = _DTYPES[width_bytes]
        self._bytes.view(dtype)[places] = values.astype(dtype)

    def places(
        self, addresses: Words, owners: NDArray[np.int64], width_bytes: int
    ) -> NDArray[np.int64]:
        """Return the index of the element at each aligned address.

        The indices refer to an array that holds the memory of all owners.

        Raises:
            BadAddress: some bytes at an address do not exist.
        """
        offsets = addresses & _LOW
        if self._together:
            owners, offsets = self._find_named(owners, offsets)
        room = self.bytes_each - width_bytes
        bad = np.full(len(offsets), True) if room < 0 else offsets > np.uint64(room)
        if bad.any():
            raise BadAddress(int(addresses[bad.argmax()]))
        return (owners * self._stride + offsets.astype(np.int64)) // width_bytes

    def _find_named(
        self, owners: NDArray[np.int64], offsets: Words
    ) -> tuple[NDArray[np.int64], Words]:
        """Return the owners that addresses name, and the offsets in their parts."""
        place = (offsets >> np.uint64(CLUSTER_RANK_SHIFT)).astype(np.int64) - FIRST_RANK_FIELD
        named = (place >= 0) & (place < self._together)
        if not named.any():
            return owners, offsets
        first = owners - owners % self._together
        inside = offsets & np.uint64((1 << CLUSTER_RANK_SHIFT) - 1)
        return np.where(named, first + place, owners), np.where(named, inside, offsets)


class Spaces:
    """Global memory, and the shared and local memory of ``lanes`` lanes.

    ``blocks`` is the number of resident blocks; if it is 0, there is no shared memory.
    ``lanes_per_block`` is the number of lanes of each resident block.

    Raises (from its constructor):
        ValueError: global memory overlaps the windows of shared and local memory, or is so close to
            them that native code would mistake a pointer to global memory for one to shared memory.
    """

    def __init__(
        self,
        launch: InterpretedLaunch,
        lanes: int,
        blocks: int = 0,
        lanes_per_block: int = 1,
    ) -> None:
        self._memory: Memory = launch.memory
        _check_windows(launch)
        shared_bytes = launch.mapped_bytes if blocks else 0
        # A vector may end beyond the variable in which it begins.
        if not launch.dynamic_shared_bytes:
            shared_bytes = -(-shared_bytes // _STRIDE_BYTES) * _STRIDE_BYTES
        together = launch.cluster_blocks if launch.cluster_blocks > 1 else 0
        self._shared = Private(Space.SHARED, launch.shared_window, shared_bytes, blocks, together)
        self._local = Private(Space.LOCAL, launch.local_window, launch.local_bytes, lanes)
        self._lanes_per_block = lanes_per_block

    def clear(self, block: int) -> None:
        """Clear the shared and local memory of a resident block.

        The next block in its place then cannot read the data of the previous one.
        """
        self._shared.clear(block, block + 1)
        self._local.clear(block * self._lanes_per_block, (block + 1) * self._lanes_per_block)

    def blocks_of(self, lane: int, *, pair: bool) -> list[NDArray[np.uint8]]:
        """Return the shared memory of the block of a lane, or of its pair, which may be written."""
        owner = lane // self._lanes_per_block
        owners = self._shared.pair(owner) if pair else (owner,)
        return [self._shared.part(block) for block in owners]

    def load(self, space: Space, addresses: Words, mask: Mask, width_bytes: int) -> Words:
        """Return the zero-extended value at each address, one for each active lane of ``mask``.

        Raises:
            BadAddress: some bytes at an address (of ``space``) do not exist.
        """
        values = np.empty(len(addresses), dtype=np.uint64)
        for inside, private, owners in self._parts(space, addresses, mask):
            if private is None:
                values[inside] = self._memory.load(addresses[inside], width_bytes)
            else:
                values[inside] = private.load(addresses[inside], owners, width_bytes)
        return values

    def store(
        self, space: Space, addresses: Words, mask: Mask, values: Words, width_bytes: int
    ) -> None:
        """Store the low bytes of the value of each active lane of ``mask``. If several values have
        the same place in memory, the last of them is stored.

        Raises:
            BadAddress: as ``load``.
        """
        for inside, private, owners in self._parts(space, addresses, mask):
            if private is None:
                self._memory.store(addresses[inside], values[inside], width_bytes)
            else:
                private.store(addresses[inside], owners, values[inside], width_bytes)

    def identities(self, space: Space, addresses: Words, mask: Mask, width_bytes: int) -> Words:
        """Return an integer for each address. Equal integers denote the same place in memory.

        The integer is odd for shared and local memory, and even for global memory.

        Raises:
            BadAddress: an address of shared or local memory does not exist.
        """
        places = addresses << _KIND_BITS
        for inside, private, owners in self._parts(space, addresses, mask):
            if private is not None:
                own = private.places(addresses[inside], owners, width_bytes).astype(np.uint64)
                kind = _LOCAL if private is self._local else _SHARED
                places[inside] = own << _KIND_BITS | kind
        return places

    def _parts(
        self, space: Space, addresses: Words, mask: Mask
    ) -> Iterator[tuple[NDArray[np.bool_] | slice, Private | None, NDArray[np.int64]]]:
        """Yield the memories to which the addresses refer; None is global memory.

        With each memory, yield which of the addresses refer to it, and their owners if it is
        private.
        """
        global_part = np.full(len(addresses), True)
        for private in (self._shared, self._local):
            if space is private.space:
                yield slice(None), private, self._owners(private, mask)
                return
            if space is Space.GENERIC and private.bytes_each:
                inside = addresses >> _UPPER == private.upper
                if inside.any():
                    yield inside, private, self._owners(private, mask)[inside]
                    global_part &= ~inside
        if global_part.all():
            yield slice(None), None, _NO_OWNERS
        elif global_part.any():
            yield global_part, None, _NO_OWNERS

    def _owners(self, private: Private, mask: Mask) -> NDArray[np.int64]:
        lanes = np.flatnonzero(mask)
        return lanes if private is self._local else lanes // self._lanes_per_block


def _check_windows(launch: InterpretedLaunch) -> None:
    gpu = launch.shared_window - address_map.SHARED_OFFSET
    first = gpu + address_map.HOST_OFFSET + address_map.HOST_BYTES
    behind = gpu + address_map.LOCAL_OFFSET + address_map.LOCAL_BYTES
    for begin, end in launch.memory.extents():
        if begin < behind and first < end:
            raise ValueError(
                f"{launch.function.name}: global memory at {begin:#x} to {end:#x} is in the"
                f" windows of shared and local memory, {first:#x} to {behind:#x};"
                " use one of address_map.APERTURE_BASES"
            )
