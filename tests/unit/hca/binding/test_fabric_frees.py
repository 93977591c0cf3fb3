"""The engine frees all memory of an object when the object is removed."""

import ctypes
import gc

import pytest

ROUNDS = 2000
_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
    *("fsmblks", "uordblks", "fordblks", "keepcost"),
)


class Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of glibc; ``uordblks`` are the allocated bytes of all arenas."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS)


def allocated_bytes() -> int:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("mallinfo2 is of glibc 2.33 and later")
    libc.mallinfo2.restype = Mallinfo2
    gc.collect()
    return libc.mallinfo2().uordblks


def flow(engine) -> None:
    engine.remove_flow(engine.add_flow())


def limit(engine) -> None:
    engine.remove_limit(engine.add_limit(1000, 1000, 1000, 1000))


def limited_flow(engine) -> None:
    made, of = engine.add_flow(), engine.add_limit(1000, 1000, 0, 0)
    engine.limit_flow(made, [of])
    engine.remove_flow(made)
    engine.remove_limit(of)


def pair(engine) -> None:
    engine.remove_pair(engine.add_pair(bytes([1] * 16), bytes([2] * 16)))


@pytest.mark.parametrize("round_trip", [flow, limit, limited_flow, pair])
def test_what_was_added_and_removed_takes_no_memory(engines, round_trip):
    engine = engines[0]
    round_trip(engine)  # one-time allocations stay
    before = allocated_bytes()
    for _ in range(ROUNDS):
        round_trip(engine)
    assert allocated_bytes() - before < 8 * ROUNDS  # malloc allocates at least 24 bytes
