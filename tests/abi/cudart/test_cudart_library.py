"""The runtime's shared objects: exports, version nodes, dependencies, layouts and numbers.

``recorded/cudart_layouts.txt`` has the size of each structure, and offset and size of each field, in
the public headers of CUDA 12.9 and 13.5; ``recorded/cudart_symbols.txt`` has the names that those
versions of the runtime export.
"""

import re
import subprocess
from pathlib import Path

import pytest
from cuda.bindings import runtime

from vgpu_sim.clients.codegen import library as codegen
from vgpu_sim.native import catalogue

RECORDED = Path(__file__).parents[1] / "recorded"
FOLDER = catalogue.CLIENTS / "libcudart"
MAJORS = (12, 13)


def read_recorded(name: str, major: int) -> list[list[str]]:
    """Return the fields of a file's lines for a major version."""
    lines = (line.split() for line in (RECORDED / name).read_text().splitlines())
    return [line[1:] for line in lines if line[0] == str(major)]


def read_elf(path: Path, *options: str) -> str:
    command = ["readelf", "-W", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("major", MAJORS)
def test_symbols_are_those_of_the_public_library(libraries, major):
    output = read_elf(libraries / f"libcudart.so.{major}", "--dyn-syms")
    exported = re.findall(r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+(\S+)@@(\S+)", output)
    wanted = [
        (symbol, f"libcudart.so.{major}")
        for (symbol,) in read_recorded("cudart_symbols.txt", major)
    ]
    assert sorted(exported) == sorted(wanted)


@pytest.mark.parametrize("major", MAJORS)
def test_it_needs_the_driver_from_its_own_folder_and_an_old_glibc(libraries, major):
    path = libraries / f"libcudart.so.{major}"
    dynamic = read_elf(path, "-d")
    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libcuda.so.1", "libc.so.6"]
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == [f"libcudart.so.{major}"]
    assert re.findall(r"RUNPATH.*\[(.*)\]", dynamic) == ["$ORIGIN"]
    versions = re.findall(r"@GLIBC_([0-9.]+)", read_elf(path, "--dyn-syms"))
    assert max(tuple(map(int, version.split("."))) for version in versions) <= (2, 17)


@pytest.mark.parametrize("major", MAJORS)
def test_structures_have_the_public_layouts(tmp_path, libraries, major):
    facts = read_recorded("cudart_layouts.txt", major)
    lines = []
    for structure, field, *_ in facts:
        size = f"sizeof(struct {structure})"
        value = f"sizeof(((struct {structure} *)0)->{field})"
        place = f"offsetof(struct {structure}, {field})"
        shown = f"{size}, (size_t)0" if field == "-" else f"{place}, {value}"
        lines.append(f'printf("{structure} {field} %zu %zu\\n", {shown});')
    source, program = tmp_path / "layouts.c", tmp_path / "layouts"
    source.write_text(
        '#include <stdio.h>\n#include "api.h"\n#include "devices/device_prop.h"\n'
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    )
    flags = [
        f"-DTSR_CUDART={major}",
        f"-I{FOLDER}",
        f"-I{catalogue.GENERATED / f'libcudart{major}'}",
    ]
    subprocess.run(["cc", "-std=c11", *flags, str(source), "-o", str(program)], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [line.split() for line in output.splitlines()] == facts


@pytest.mark.parametrize("major", MAJORS)
def test_errors_have_their_public_names_and_numbers(major):
    ours = {one.name: one.code for one in codegen.load(FOLDER, major).statuses}
    theirs = {one.name: int(one) for one in runtime.cudaError_t}
    assert {name: ours.get(name) for name in theirs} == theirs | (
        {"cudaErrorApiFailureBase": None} if "cudaErrorApiFailureBase" in theirs else {}
    )


def test_each_property_is_its_attribute():
    """The names of most fields are those of the attribute, without regard to case."""
    attributes = {
        one.name.removeprefix("cudaDevAttr").lower(): int(one) for one in runtime.cudaDeviceAttr
    }
    text = (FOLDER / "devices/properties.c").read_text()
    rows = re.findall(r"FIELD\((\w+), (\d+)\)", text)
    known = [(name, int(number)) for name, number in rows if name.lower() in attributes]
    assert len(known) > 40
    assert [(name, attributes[name.lower()]) for name, _ in known] == known
