"""The generator and ``clients/common`` support a second library with its own statuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim.clients.codegen import library, outputs
from vgpu_sim.native import build, catalogue, generate

LIBRARY = """
soname = "libtoy.so.1"
header = "toy_types.h"
status = "toyReturn_t"
unsupported = "TOY_NO_SUCH_THING"
handles = ["toyDevice_t"]
results_32_bit = ["unsigned int"]

[ready]
header = "toy_types.h"
call = "toy_ready"
without = ["toyInit"]
"""
FUNCTIONS = """
functions = [
  { name = "toyInit", class = "local", prototype = "void" },
  { name = "toyCount", class = "local", prototype = "toyDevice_t device, unsigned int *count" },
  { name = "toyFly" },
]
errors = [
  { code = 0, name = "TOY_FINE", text = "fine" },
  { code = 7, name = "TOY_NOT_YET", text = "call toyInit" },
  { code = 9, name = "TOY_NO_SUCH_THING", text = "no such thing" },
]
"""
TYPES = """
#pragma once
typedef struct toyDevice *toyDevice_t;
typedef enum { TOY_FINE = 0, TOY_NOT_YET = 7, TOY_NO_SUCH_THING = 9 } toyReturn_t;
toyReturn_t toy_ready(void);
"""
TOY = """
#include "api.h"
#include "slices.h"
#include "status_table.h"

static toyReturn_t state = TOY_NOT_YET;
toyReturn_t toy_ready(void) { return state; }
toyReturn_t tsr_toyInit(void) { return state = TOY_FINE; }
toyReturn_t tsr_toyCount(toyDevice_t device, unsigned int *count) {
  static struct tsr_slice_name names[TSR_MAX_SLICES];
  *count = (unsigned)tsr_slices_list(names) + (device ? 100 : 0);
  return tsr_status_count == 3 ? TOY_FINE : TOY_NO_SUCH_THING;
}
"""
PROGRAM = """
import ctypes, sys
toy = ctypes.CDLL(sys.argv[1])
count = ctypes.c_uint(0)
print(toy.toyCount(None, ctypes.byref(count)))
print(toy.toyInit(), toy.toyCount(ctypes.c_void_p(1), ctypes.byref(count)), count.value)
print(toy.toyFly(1, 2), toy.toyFly())
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    sources = tmp_path_factory.mktemp("libtoy")
    for name, text in {
        "library.toml": LIBRARY,
        "functions.toml": FUNCTIONS,
        "toy_types.h": TYPES,
        "toy.c": TOY,
    }.items():
        (sources / name).write_text(text)
    generated = tmp_path_factory.mktemp("generated")
    generate.write_all(generated)
    outputs.write(library.load(sources), generated)
    directory = tmp_path_factory.mktemp("lib")
    part = catalogue.client_part(sources, "libtoy.so.1", generated_root=generated)
    return build.build(part, directory)


def run(toy: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(toy)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_functions_answer_with_its_statuses(toy, tmp_path):
    for name in ("MIG-1", "MIG-2", "no-slice"):
        (tmp_path / name).mkdir()
    done = run(toy, TESSERA_SLICES_DIR=str(tmp_path))
    assert done.stdout == "7\n0 0 102\n9 9\n", done.stderr
    assert done.stderr == "tessera: toyFly is not supported (TOY_NO_SUCH_THING)\n"


def test_it_reads_the_variables_of_all_client_libraries(toy, tmp_path):
    trace = tmp_path / "trace"
    strict = run(toy, TESSERA_STRICT="1", TESSERA_TRACE=str(trace), TESSERA_SLICES_DIR="/nowhere")
    assert strict.returncode < 0
    calls = [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in trace.read_text().splitlines()]
    assert calls == ["toyInit() = 0", "toyCount(device=1, count=[100]) = 0", "toyFly() = 9"]


def test_it_exports_its_functions_and_nothing_else(toy):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(toy)], check=True, capture_output=True, text=True
    )
    assert {line.split()[-1] for line in listed.stdout.splitlines()} == {
        "toyInit",
        "toyCount",
        "toyFly",
    }


def test_a_library_without_a_status_for_unsupported_is_refused(toy, tmp_path):
    (tmp_path / "library.toml").write_text(LIBRARY.replace("TOY_NO_SUCH_THING", "TOY_WHAT"))
    (tmp_path / "functions.toml").write_text(FUNCTIONS)
    with pytest.raises(ValueError, match="TOY_WHAT"):
        library.load(tmp_path)
