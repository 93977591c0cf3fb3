"""A pytest plugin that turns launches of the interpreter by tests into cases for a GPU.

``pytest -p benchmarks.silicon.values.capture --silicon-capture FOLDER tests/conformance`` runs no
native code: what both executors should agree on is what the interpreter computes.
"""

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.silicon.values.bundle import Store, digest
from vgpu_sim.exec import interp

Case = dict[str, Any]
_NEWEST_VERSION = (9, 0)
_NEWEST_TARGET = 90
_MOST_BYTES = 4 << 20
_NOT_PORTABLE = re.compile(r"\b(?:tex\.|tld4|suld|sust|sured|txq|suq|tcgen05|clusterlaunchcontrol)")
_MAP_BYTES = 128


def suit_target(source: str) -> str:
    """Return PTX for a GPU of compute capability 9.0 and a driver of CUDA 13.0."""

    def version(match: re.Match[str]) -> str:
        source_version = (int(match[1]), int(match[2]))
        return ".version {}.{}".format(*min(source_version, _NEWEST_VERSION))

    def target(match: re.Match[str]) -> str:
        return ".target sm_90a" if int(match[1]) > _NEWEST_TARGET else match[0]

    source = re.sub(r"\.version\s+(\d+)\.(\d+)", version, source, count=1)
    return re.sub(r"\.target\s+sm_(\d+)[af]?", target, source, count=1)


def decode_map(data: bytes) -> Case | None:
    """Return the arguments of a tensor map that Tessera encoded, without its address."""
    address, *strides = struct.unpack_from("<5Q", data)
    sizes = [size + 1 for size in struct.unpack_from("<5I", data, 40)]
    box, steps = struct.unpack_from("<5H", data, 60), struct.unpack_from("<5B", data, 70)
    rank, type_, interleave, swizzle, fill = struct.unpack_from("<5B", data, 75)
    atomicity, access, pixels = struct.unpack_from("<BxBxH", data, 80)
    corners = struct.unpack_from("<6h", data, 86)
    rank += 1
    if not 1 <= rank <= 5 or atomicity or type_ > 12 or access > 1 or not address:
        return None
    types = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 9: 8, 10: 9, 8: 10, 11: 11, 12: 12}
    return {
        "type": types[type_],
        "sizes": sizes[:rank],
        "strides": strides[: rank - 1],
        "box": [max(1, extent) for extent in box[:rank]],
        "steps": list(steps[:rank]),
        "interleave": interleave,
        "swizzle": swizzle,
        "fill": fill,
        "access": access,
        "pixels": pixels,
        "lower": list(corners[: max(rank - 2, 0)]),
        "upper": list(corners[3 : 3 + max(rank - 2, 0)]),
        "address": address,
    }


def pieces_of(memory: Any) -> list[tuple[int, bytes]]:
    """Return a copy of the interpreter's memory: addresses and contents."""
    if hasattr(memory, "pieces"):
        return [(base, bytes(data)) for base, data in memory.pieces]
    return [(memory._base, bytes(memory._data))]


def make_case(
    module: Any,
    function: Any,
    launch: tuple[Any, ...],
    parameters: bytes,
    pieces: list[tuple[int, bytes]],
    store: Store,
) -> Case | None:
    """Return a launch as a case; None if a GPU would need more than the launch shows."""
    grid, block, cluster, shared = launch
    if not module.source or _NOT_PORTABLE.search(module.source):
        return None
    if sum(len(data) for _, data in pieces) > _MOST_BYTES:
        return None

    def place(address: int) -> tuple[int, int] | None:
        for number, (base, data) in enumerate(pieces):
            if base <= address <= base + len(data):
                return number, address - base
        return None

    relocs: list[list[Any]] = []
    maps = []
    for parameter in function.parameters:
        if parameter.size == _MAP_BYTES and parameter.align >= 64:
            at = parameter.offset
            tensor_map = decode_map(parameters[at : at + _MAP_BYTES])
            target = place(tensor_map.pop("address")) if tensor_map else None
            if tensor_map is None or target is None:
                return None
            maps.append([at, {**tensor_map, "at": list(target)}])
    covered = {n for at, _ in maps for n in range(at, at + _MAP_BYTES, 8)}
    _find_pointers("p", parameters, place, relocs, covered)
    for number, (_, data) in enumerate(pieces):
        _find_pointers(number, data, place, relocs, set())
    return {
        "ptx": suit_target(module.source),
        "entry": function.name,
        "grid": list(grid),
        "block": list(block),
        "cluster": list(cluster) if cluster else None,
        "shared": shared,
        "params": parameters.hex(),
        "buffers": [[store.add(data), base % 4096] for base, data in pieces],
        "relocs": relocs,
        "maps": maps,
        "offsets": [parameter.offset for parameter in function.parameters] if maps else None,
    }


def _find_pointers(
    where: Any,
    data: bytes,
    place: Callable[[int], tuple[int, int] | None],
    relocs: list[list[Any]],
    covered: set[int],
) -> None:
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
    for index in np.flatnonzero(words >= 1 << 40):
        if 8 * int(index) in covered:
            continue
        target = place(int(words[index]))
        if target is not None:
            relocs.append([where, 8 * int(index), *target])


class Recorder:
    """The cases of a run, in files ``FOLDER/<digest>.json`` and their data beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.test, self.number = folder, "", 0
        folder.mkdir(parents=True, exist_ok=True)
        self._real = interp.run
        self._seen: set[str] = set()

    def run(self, *given: Any, **named: Any) -> None:
        """Interpret, and record the launch if no fault ended it."""
        names = ("module", "function", "grid", "block", "parameters", "memory", "segment_base")
        names += ("dynamic_shared_bytes", "surroundings", "pause")
        values = {**dict(zip(names, given, strict=False)), **named}
        pieces = pieces_of(values["memory"])
        parameters = bytes(values["parameters"])
        self._real(*given, **named)
        launch = (
            values["grid"],
            values["block"],
            values.get("cluster"),
            values.get("dynamic_shared_bytes", 0),
        )
        store = Store()
        case = make_case(values["module"], values["function"], launch, parameters, pieces, store)
        if case is None:
            return
        name = digest(json.dumps(case, sort_keys=True).encode())
        if name in self._seen:
            return
        self._seen.add(name)
        case |= {"id": f"{self.test}#{self.number}", "group": self.test.split("[")[0]}
        self.number += 1
        (self.folder / f"{name}.json").write_text(json.dumps(case))
        for piece, data in store.pieces.items():
            (self.folder / f"{piece}.bin").write_bytes(data)


_recorder: Recorder | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--silicon-capture", default="", help="folder for cases")


def pytest_configure(config: pytest.Config) -> None:
    global _recorder
    folder = config.getoption("--silicon-capture")
    if not folder:
        return
    _recorder = Recorder(Path(folder))
    interp.run = _recorder.run
    from support.execution import both_backends

    last: list[list[bytes]] = []
    real = both_backends.Bench.interpret

    def interpret(self: Any, *given: Any, **named: Any) -> list[bytes]:
        last[:] = [real(self, *given, **named)]
        return last[0]

    both_backends.Bench.interpret = interpret  # type: ignore[method-assign]
    both_backends.Bench.execute = lambda *_, **__: last[0]  # type: ignore[method-assign]
    both_backends.first_tier = lambda *_: []


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _recorder is not None:
        _recorder.test, _recorder.number = item.nodeid.removeprefix("tests/conformance/"), 0
