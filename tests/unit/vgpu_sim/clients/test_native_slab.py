"""The allocator of small blocks, compared with a model that only has intervals."""

import ctypes
import subprocess

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from vgpu_sim.native import build, catalogue

SLAB_BYTES = 2 << 20
UNIT = 512


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> ctypes.CDLL:
    output = tmp_path_factory.mktemp("slab") / "slab.so"
    client = catalogue.CLIENTS / "libcuda"
    source = client / "memory" / "slab.c"
    command = [build.compiler(), "-std=c11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Werror"]
    subprocess.run([*command, f"-I{client}", str(source), "-o", str(output)], check=True)
    loaded = ctypes.CDLL(str(output))
    loaded.tsr_slab_new.restype = ctypes.c_void_p
    loaded.tsr_slab_free.argtypes = [ctypes.c_void_p]
    loaded.tsr_slab_take.restype = ctypes.c_int64
    loaded.tsr_slab_take.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.tsr_slab_give.restype = ctypes.c_bool
    loaded.tsr_slab_give.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.tsr_slab_find.restype = ctypes.c_bool
    pointer = ctypes.POINTER(ctypes.c_uint64)
    loaded.tsr_slab_find.argtypes = [ctypes.c_void_p, ctypes.c_uint64, pointer, pointer]
    loaded.tsr_slab_empty.restype = ctypes.c_bool
    loaded.tsr_slab_empty.argtypes = [ctypes.c_void_p]
    return loaded


def pad(size: int) -> int:
    return -(-size // UNIT) * UNIT


class Model(RuleBasedStateMachine):
    """Random calls, and the expected state: ``live`` maps offsets to sizes."""

    library: ctypes.CDLL
    blocks = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.slab = self.library.tsr_slab_new()
        self.live: dict[int, int] = {}

    def teardown(self) -> None:
        self.library.tsr_slab_free(self.slab)

    def gaps(self) -> list[int]:
        ends = [0, *(offset + pad(size) for offset, size in sorted(self.live.items()))]
        starts = [*sorted(self.live), SLAB_BYTES]
        return [start - end for end, start in zip(ends, starts, strict=True)]

    sizes = st.one_of(
        st.integers(1, 3 * UNIT),
        st.integers(1, (1 << 20) - 1),
        st.just(SLAB_BYTES),
        st.just(700_000),
    )

    @rule(target=blocks, size=sizes)
    def take(self, size):
        offset = self.library.tsr_slab_take(self.slab, size)
        if offset < 0:
            assert max(self.gaps()) < pad(size), "there was room"
            return None
        assert offset % UNIT == 0
        assert offset + size <= SLAB_BYTES
        for other, length in self.live.items():
            assert offset + pad(size) <= other or other + pad(length) <= offset
        self.live[offset] = size
        return offset

    @rule(offset=consumes(blocks))
    def give(self, offset):
        if offset is not None:
            assert self.library.tsr_slab_give(self.slab, offset) == (offset in self.live)
            self.live.pop(offset, None)
            assert not self.library.tsr_slab_give(self.slab, offset)

    @rule(offset=st.integers(0, SLAB_BYTES - 1))
    def look(self, offset):
        start, size = ctypes.c_uint64(), ctypes.c_uint64()
        found = self.library.tsr_slab_find(self.slab, offset, start, size)
        expected = [(o, s) for o, s in self.live.items() if o <= offset < o + pad(s)]
        assert found == bool(expected)
        if found:
            assert (start.value, size.value) == expected[0]

    @rule(offset=st.integers(0, SLAB_BYTES - 1))
    def give_nonsense(self, offset):
        if offset not in self.live:
            assert not self.library.tsr_slab_give(self.slab, offset)

    @invariant()
    def knows_whether_it_is_empty(self):
        assert self.library.tsr_slab_empty(self.slab) == (not self.live)


def test_against_the_model(library):
    Model.library = library
    case = Model.TestCase
    case.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
    case().runTest()


def test_fragments_join_again(library):
    slab = library.tsr_slab_new()
    blocks = [library.tsr_slab_take(slab, UNIT) for _ in range(SLAB_BYTES // UNIT)]
    assert library.tsr_slab_take(slab, 1) == -1
    for offset in blocks[::2] + blocks[1::2]:
        assert library.tsr_slab_give(slab, offset)
    assert library.tsr_slab_take(slab, SLAB_BYTES) == 0
    library.tsr_slab_free(slab)
