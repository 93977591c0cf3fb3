"""Fat binaries and bitcode containers, and the headers' agreement with the libraries."""

import re
import struct
import tomllib
from pathlib import Path

import pytest

from vgpu_sim import clients
from vgpu_sim.sdk import device_link, driver, fatbin
from vgpu_sim.sdk.errors import CompileError

CLIENTS = Path(clients.__file__).parent
IDENTITY = "0123456789abcdef"


def test_a_fat_binary_lists_its_images_by_architecture() -> None:
    image = fatbin.pack_ptx({"80": b"first", "90a": b"second text"})
    magic, version, header, size = struct.unpack_from("<IHHQ", image)
    assert (magic, version, header, size) == (0xBA55ED50, 1, 16, len(image) - 16)
    at, found = 16, []
    while at < len(image):
        kind, _, length, payload = struct.unpack_from("<HHIQ", image, at)
        architecture = struct.unpack_from("<I", image, at + 28)[0]
        text = image[at + length : at + length + payload]
        assert (kind, payload % 8) == (1, 0)
        found.append((architecture, text.rstrip(b"\0")))
        assert text.endswith(b"\0")
        at += length + payload
    assert found == [(80, b"first"), (90, b"second text")]


def test_bitcode_is_read_back_behind_padding() -> None:
    packed = fatbin.pack_bitcode({"80": b"abc", "90": b"defgh"}, IDENTITY)
    assert list(fatbin.unpack_bitcode(bytes(16) + packed, "x.o")) == [
        ("80", b"abc"),
        ("90", b"defgh"),
    ]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0), "device code of another compiler"),
        (fatbin.pack_bitcode({"80": b"x" * 99}, IDENTITY)[:100], "truncated"),
        (fatbin.BITCODE_MAGIC + b"\1" * 80, "truncated"),
    ],
)
def test_foreign_and_truncated_sections_are_refused(section: bytes, text: str) -> None:
    with pytest.raises(CompileError, match=f"x.o: .*{text}"):
        list(fatbin.unpack_bitcode(section, "x.o"))


def test_only_static_libraries_that_the_linker_would_take_are_searched(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ["libs.so", "libs.a"]), (second, ["liba.a", "libs.a"])):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    found = device_link.find_archives([first, second], ["s", "a", "m"])
    assert found == [str(second / "liba.a")]


def _declared(*headers: str) -> set[str]:
    texts = [(driver.INCLUDE / header).read_text() for header in headers]
    return {
        name for text in texts for name in re.findall(r"^\S.*?\b(cu\w+)\([^*]", text, re.MULTILINE)
    }


def _symbols(library: str, major: int) -> set[str]:
    table = tomllib.loads((CLIENTS / library / "functions.toml").read_text())
    return {one["symbol"] for one in table["functions"] if major in one.get("majors", (12, 13))}


def test_every_declared_function_is_exported_by_the_library() -> None:
    runtime = _declared("cuda_runtime_api.h", "cuda_profiler_api.h")
    assert len(runtime) > 300
    assert runtime - _symbols("libcudart", 12) == set()
    driver_functions = _declared("tessera/driver/functions.h")
    assert len(driver_functions) > 400
    assert driver_functions - _symbols("libcuda", 12) == set()
