"""The layouts and numbers of libibverbs are those of the distribution's header."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hca.contract import verbs
from support.kept import native_parts
from vgpu_sim.clients.codegen import library
from vgpu_sim.native import build, catalogue

INSTALL = "apt-get install libibverbs-dev"
HEADER = Path("/usr/include/infiniband/verbs.h")
FOLDER = catalogue.RDMA_CLIENTS / "libibverbs"
PREFIXES = {
    verbs.VerbsOpcode: "IBV_WR_",
    verbs.VerbsSend: "IBV_SEND_",
    verbs.VerbsStatus: "IBV_WC_",
    verbs.VerbsDone: "IBV_WC_",
    verbs.VerbsWcFlag: "IBV_WC_",
    verbs.VerbsAccess: "IBV_ACCESS_",
    verbs.VerbsQpType: "IBV_QPT_",
    verbs.VerbsMwType: "IBV_MW_",
    verbs.VerbsState: "IBV_QPS_",
    verbs.VerbsMask: "IBV_QP_",
    verbs.VerbsEvent: "IBV_EVENT_",
}
OWN_NUMBERS = [
    name
    for file in ("verbs_types.h", "verbs_flows.h")
    for name in re.findall(
        r"\b(IBV_\w+) =", re.sub(r"#.*", "", (FOLDER / file).read_text(encoding="ascii"))
    )
]
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
    ours = print_numbers(tmp_path, '"verbs_types.h"', OWN_NUMBERS)
    theirs = print_numbers(tmp_path, "<infiniband/verbs.h>", OWN_NUMBERS)
    assert ours == theirs
    assert len(ours) > 120


@needs_header
def test_a_wrong_layout_is_seen(tmp_path):
    wrong = tmp_path / "wrong.h"
    text = (FOLDER / "verbs_types.h").read_text(encoding="ascii")
    wrong.write_text(text.replace("void *addr;\n  size_t length;", "size_t length;", 1))
    ours = print_numbers(tmp_path, f'"{wrong}"', [])
    assert ours != print_numbers(tmp_path, "<infiniband/verbs.h>", [])


@needs_header
def test_every_number_of_the_contract_is_verbs(tmp_path):
    assert set(PREFIXES) == set(verbs.ENUMS)
    named = {f"{PREFIXES[kind]}{one.name}": int(one) for kind in verbs.ENUMS for one in kind}
    theirs = print_numbers(tmp_path, "<infiniband/verbs.h>", list(named))
    assert theirs[-len(named) :] == [f"{name} {value}" for name, value in named.items()]


def test_symbols_have_their_versions():
    if shutil.which("readelf") is None:
        pytest.skip("NOT RUN: no readelf: apt-get install binutils")
    (built,) = native_parts.build_once("libibverbs.so.1")
    done = subprocess.run(
        ["readelf", "--dyn-syms", "-W", str(built)], check=True, capture_output=True, text=True
    )
    found = set(re.findall(r"(?:FUNC|OBJECT)\s+GLOBAL\s+DEFAULT\s+\d+\s+(\S+)@@(\S+)", done.stdout))
    made = library.load(FOLDER)
    wanted = {(one.symbol, one.version) for one in made.functions} | set(made.data.items())
    assert {pair for pair in found if pair[0] not in made.versions} == wanted
    assert {"IBVERBS_1.0", "IBVERBS_1.1", "IBVERBS_PRIVATE_34"} <= {version for _, version in found}
