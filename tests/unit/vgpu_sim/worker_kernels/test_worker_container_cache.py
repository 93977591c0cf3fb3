"""The cache of compiled modules: the key of an entry, and the handling of damaged ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import container
from vgpu_sim.worker.modules.container_cache import ContainerCache
from vgpu_sim.worker.modules.module_summary import ModuleSummary, summarise

PTX = (Path(__file__).parents[4] / "examples/vecadd.ptx").read_bytes()
MODULE = compile_ptx(PTX, capability=(8, 0))
SUMMARY, CODE = summarise(MODULE), container.encode(MODULE)
LARGEST_BYTES = 256 << 20


@pytest.fixture
def cache_with_entry(tmp_path: Path) -> tuple[ContainerCache, Path]:
    """A cache with one entry, and its file."""
    cache = ContainerCache(tmp_path, (8, 0), "jit")
    cache.store(PTX, SUMMARY, CODE)
    (entry,) = tmp_path.iterdir()
    return cache, entry


def test_what_was_stored_is_found(cache_with_entry: tuple[ContainerCache, Path]) -> None:
    cache, _ = cache_with_entry
    assert cache.load(PTX) == (SUMMARY, CODE)
    assert cache.load(PTX + b" ") is None


@pytest.mark.parametrize(
    ("capability", "backend"), [((8, 6), "jit"), ((9, 0), "jit"), ((8, 0), "interp")]
)
def test_an_entry_belongs_to_a_capability_and_a_backend(
    cache_with_entry: tuple[ContainerCache, Path],
    tmp_path: Path,
    capability: tuple[int, int],
    backend: str,
) -> None:
    assert ContainerCache(tmp_path, capability, backend).load(PTX) is None
    assert ContainerCache(tmp_path, (8, 0), "jit").load(PTX) is not None


def test_without_a_directory_nothing_is_remembered() -> None:
    cache = ContainerCache(None, (8, 0), "jit")
    cache.store(PTX, SUMMARY, CODE)
    assert cache.load(PTX) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "torn in its head": lambda data: data[:20],
    "torn at its end": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "another kind of file": lambda data: b"X" + data[1:],
    "a bit of the digest": lambda data: data[:8] + bytes([data[8] ^ 1]) + data[9:],
    "a bit of the code": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss(
    cache_with_entry: tuple[ContainerCache, Path], damage: str
) -> None:
    cache, entry = cache_with_entry
    entry.write_bytes(DAMAGES[damage](entry.read_bytes()))
    assert cache.load(PTX) is None
    cache.store(PTX, SUMMARY, CODE)
    assert cache.load(PTX) == (SUMMARY, CODE)


def test_an_entry_that_is_too_large_is_not_even_read(
    cache_with_entry: tuple[ContainerCache, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with access to the directory may put a sparse file there, which costs readers
    memory.
    """
    cache, entry = cache_with_entry
    opened: list[int] = []
    fdopen = os.fdopen

    def record_open(descriptor: int, mode: str) -> object:
        opened.append(os.fstat(descriptor).st_size)
        os.close(descriptor)
        return fdopen(os.open(os.devnull, os.O_RDONLY), mode)

    monkeypatch.setattr(os, "fdopen", record_open)
    for size in (LARGEST_BYTES, LARGEST_BYTES + 1):
        os.truncate(entry, size)
        assert cache.load(PTX) is None
    assert opened == [LARGEST_BYTES]


def test_a_summary_is_read_as_it_was_written() -> None:
    assert ModuleSummary.from_json(SUMMARY.to_json()) == SUMMARY
    assert SUMMARY.target == MODULE.required_capability == (8, 0)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"functions": [1]}'])
def test_what_is_no_summary_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        ModuleSummary.from_json(data)
