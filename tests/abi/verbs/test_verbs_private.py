"""The symbols that driver libraries of rdma-core 34 to 65 import from Tessera's libibverbs.so.1."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from hca.contract.verbs import VerbsOpcode
from support.kept import native_parts
from vgpu_sim.native import build, catalogue

LIBRARY = build.LIBRARIES / catalogue.RDMA / "libibverbs.so.1"


@pytest.fixture(scope="module")
def verbs() -> ctypes.CDLL:
    native_parts.build_once()
    return ctypes.CDLL(str(LIBRARY))


NODES = {34: "56", 57: "58", 59: "63", 64: "64", 65: "65"}
"""Private version nodes, with the last version of rdma-core that has each."""
DRIVER = """
#include <stdbool.h>
extern void verbs_register_driver_{node}(const void *);
extern int {added}(void);
extern bool verbs_allow_disassociate_destroy;
int (*keep)(void) = {added};
__attribute__((constructor)) static void begin(void) {{ verbs_register_driver_{node}(0); }}
int main(void) {{ return verbs_allow_disassociate_destroy ? 0 : 1; }}
"""
ADDED = {
    34: "ibv_cmd_create_cq_ex2",
    57: "ibv_cmd_create_cq_ex2",
    59: "ibv_cmd_reg_mr_ex",
    64: "ibv_dmabuf_heap_alloc",
    65: "ibv_cmd_create_comp_cntr",
}


def linked_against(node: int, folder: Path) -> Path:
    """Return a program linked as with some version of libibverbs, and as that version's driver."""
    names = (f"verbs_register_driver_{node}", ADDED[node], "verbs_allow_disassociate_destroy")
    listed = "".join(f"{name}; " for name in names)
    (folder / "map").write_text(f"IBVERBS_PRIVATE_{node} {{ global: {listed}local: *; }};")
    functions = "".join(f"void {name}(void) {{}}" for name in names[:2])
    (folder / "theirs.c").write_text(f"{functions} _Bool {names[2]};")
    (folder / "driver.c").write_text(DRIVER.format(node=node, added=ADDED[node]))
    theirs, program = folder / "libibverbs.so.1", folder / f"of{node}"
    compiler = build.compiler()
    shared = ("-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1")
    script = f"-Wl,--version-script={folder / 'map'}"
    for words in (
        (*shared, script, str(folder / "theirs.c"), "-o", str(theirs)),
        ("-fPIC", "-Wl,-z,now", str(folder / "driver.c"), str(theirs), "-o", str(program)),
    ):
        subprocess.run([compiler, *words], check=True)
    theirs.unlink()
    return program


@pytest.mark.parametrize("node", NODES)
def test_a_program_with_a_driver_of_any_version_is_loaded(
    tmp_path: Path, verbs: ctypes.CDLL, node: int
) -> None:
    """All symbols are resolved at start, so a missing one prevents the program from running."""
    program = linked_against(node, tmp_path)
    environment = {"LD_LIBRARY_PATH": str(LIBRARY.parent)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_node_has_what_those_before_it_have(verbs: ctypes.CDLL) -> None:
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(verbs._handle)
    for name, first in ((b"ibv_wr_opcode_str", 34), (b"ibv_cmd_reg_mr_ex", 59)):
        there = [node for node in NODES if libc.dlvsym(handle, name, b"IBVERBS_PRIVATE_%d" % node)]
        assert there == [node for node in NODES if node >= first], name


def test_operations_have_names(verbs: ctypes.CDLL) -> None:
    verbs.ibv_wr_opcode_str.restype = ctypes.c_char_p
    for one in VerbsOpcode:
        name = one.name.lower().replace("_", "-").encode()
        assert verbs.ibv_wr_opcode_str(int(one)) == name
    for number in (-1, 10, 11, 16, 1 << 30):
        assert verbs.ibv_wr_opcode_str(number) == b"unknown"
