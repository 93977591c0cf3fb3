"""The layouts, numbers and symbols of librdmacm are those of the distribution's librdmacm."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hca.contract import cm
from support.kept import native_parts
from vgpu_sim.clients.codegen import library
from vgpu_sim.native import build, catalogue

INSTALL = "apt-get install librdmacm-dev"
HEADER = Path("/usr/include/rdma/rdma_cma.h")
FOLDER = catalogue.RDMA_CLIENTS / "librdmacm"
PREFIXES = {cm.CmEventType: "RDMA_CM_EVENT_", cm.CmPortSpace: "RDMA_PS_"}
OWN_NUMBERS = re.findall(
    r"\b(R(?:DMA|AI)_\w+) =", re.sub(r"#.*", "", (FOLDER / "rdma_types.h").read_text("ascii"))
)
needs_header = pytest.mark.skipif(not HEADER.exists(), reason=f"NOT RUN: no {HEADER}: {INSTALL}")

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#include HEADER
#define SIZE(type) printf(#type " %zu\\n", sizeof(type));
#define FIELD(type, field) printf(#type "." #field " %zu\\n", offsetof(type, field));
#define NUMBER(name) printf(#name " %lld\\n", (long long)name);
int main(void) {
#include "layouts.def"
"""


def print_numbers(tmp_path: Path, header: str, numbers: list[str]) -> list[str]:
    source, output = tmp_path / "layouts.c", tmp_path / "layouts"
    lines = "".join(f"NUMBER({name})\n" for name in numbers)
    source.write_text(f"{PROGRAM}{lines}return 0; }}\n")
    command = [build.compiler(), f"-I{FOLDER}", f"-DHEADER={header}", str(source)]
    subprocess.run([*command, "-o", str(output)], check=True)
    done = subprocess.run([str(output)], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@needs_header
def test_every_layout_and_number_is_the_headers(tmp_path):
    ours = print_numbers(tmp_path, '"rdma_types.h"', OWN_NUMBERS)
    theirs = print_numbers(tmp_path, "<rdma/rdma_cma.h>", OWN_NUMBERS)
    assert ours == theirs
    assert len(ours) > 60


@needs_header
def test_a_wrong_layout_is_seen(tmp_path):
    wrong = tmp_path / "wrong.h"
    text = (FOLDER / "rdma_types.h").read_text(encoding="ascii")
    moved = text.replace("uint8_t port_num;\n  struct rdma_cm_event *event;", "void *event;", 1)
    assert moved != text
    moved = moved.replace('"../libibverbs/', f'"{catalogue.RDMA_CLIENTS}/libibverbs/')
    wrong.write_text(moved.replace("void *event;", "void *event; uint8_t port_num;", 1))
    ours = print_numbers(tmp_path, f'"{wrong}"', [])
    assert ours != print_numbers(tmp_path, "<rdma/rdma_cma.h>", [])


@needs_header
def test_every_number_of_the_contract_is_the_headers(tmp_path):
    named = {f"{PREFIXES[kind]}{one.name}": int(one) for kind in PREFIXES for one in kind}
    named |= {"RDMA_UDP_QKEY": cm.CM_UDP_QKEY}
    theirs = print_numbers(tmp_path, "<rdma/rdma_cma.h>", list(named))
    assert theirs[-len(named) :] == [f"{name} {value}" for name, value in named.items()]


def read_exports(path: Path) -> set[tuple[str, str]]:
    """Return the functions that a library exports, with their version nodes."""
    done = subprocess.run(
        ["readelf", "--dyn-syms", "-W", str(path)], check=True, capture_output=True, text=True
    )
    return set(re.findall(r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+(\S+)@@(\S+)", done.stdout))


def test_symbols_have_their_versions():
    if shutil.which("readelf") is None:
        pytest.skip("NOT RUN: no readelf: apt-get install binutils")
    *_, built = native_parts.build_once("libibverbs.so.1", "librdmacm.so.1")
    made = library.load(FOLDER)
    assert read_exports(built) == {(one.symbol, one.version) for one in made.functions}


def test_every_symbol_of_the_distributions_library_is_there():
    """Programs are linked with BIND_NOW, so a missing symbol prevents a program from starting."""
    found = sorted(Path("/usr/lib").glob("*/librdmacm.so.1"))
    if not found or shutil.which("readelf") is None:
        pytest.skip("NOT RUN: no librdmacm.so.1: apt-get install librdmacm1 binutils")
    made = library.load(FOLDER)
    assert read_exports(found[0]) <= {(one.symbol, one.version) for one in made.functions}
