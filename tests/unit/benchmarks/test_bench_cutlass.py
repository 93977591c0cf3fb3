"""CUTLASS's unit tests as a client: how its files become programs, and what a test's end means."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.clients.catalogue import CLIENTS
from benchmarks.clients.programs.cutlass.units import PROGRAMS, NotCompiled, Toolkit

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "benchmarks" / "clients" / "programs" / "cutlass"

# The program that the stand-in for nvcc makes behaves as googletest for these names.
GOOGLETEST = """#!/bin/sh
case "$1" in
*passes) echo '[==========] 1 test from 1 test suite ran. (3 ms total)' ;;
*skips) echo '[==========] 1 test from 1 test suite ran. (3 ms total)'; echo '[  SKIPPED ] 1 test' ;;
*absent) echo '[==========] 0 tests from 0 test suites ran. (0 ms total)' ;;
*differs) printf 'a.cu:7: Failure\\nExpected equality of these values:\\n  7\\n  8\\n'; exit 1 ;;
*refused) echo 'tessera: the PTX has an instruction that is not supported' >&2; exit 1 ;;
*killed) kill -9 $$ ;;
esac
"""
NVCC = """#!/bin/sh
case "$*" in *' -c') ;; *) echo once >> "$(dirname "$0")/runs" ;; esac
case "$*" in *broken.cu*) echo 'a.h(3): error: no such thing' >&2; exit 1 ;; esac
while [ "$1" != -o ]; do shift; done
cp "$(dirname "$0")/program" "$2"
"""


def make_toolkit(folder: Path) -> Toolkit:
    """Return a toolkit with a checkout of a few files and a compiler that copies a script."""
    toolkit = Toolkit(folder / "cutlass", folder / "cuda", folder / "libraries")
    version = toolkit.checkout / "include" / "cutlass" / "version.h"
    version.parent.mkdir(parents=True)
    version.write_text("#define CUTLASS_MAJOR 4\n")
    for path in ("test_unit.cpp", "common/filter_architecture.cpp"):
        main = toolkit.units / path
        main.parent.mkdir(parents=True, exist_ok=True)
        main.touch()
    for path, text in (("nvcc", NVCC), ("program", GOOGLETEST)):
        script = toolkit.cuda / "bin" / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
    return toolkit


def write_units(toolkit: Toolkit, **texts: str) -> tuple[str, ...]:
    """Write test files, and return their names."""
    folder = toolkit.units / "cute"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.cu").write_text(text)
    return tuple(f"cute/{name}.cu" for name in texts)


def test_the_names_of_tests_come_from_the_source(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path)
    text = "TEST(Suite, First) {}\n// TEST(Suite, Comment)\n  TEST( Suite ,\n Second ) {}\n"
    (file,) = write_units(toolkit, one=text)
    assert toolkit.tests(file) == ["Suite.First", "Suite.Second"]


def test_headers_of_united_files_are_outside_of_their_namespaces(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path)
    texts = {"a": "#include <vector>\nint f;\n", "b": '#include "beside.h"\n# include <vector>\n'}
    files = write_units(toolkit, **texts)
    beside = toolkit.units / "cute" / "beside.h"
    beside.touch()
    united = toolkit.unite(files)
    assert united.splitlines() == [
        *("#include <vector>", f'#include "{beside}"'),
        *("namespace file_0 {", f'#include "{toolkit.units}/{files[0]}"', "}"),
        *("namespace file_1 {", f'#include "{toolkit.units}/{files[1]}"', "}"),
    ]


def test_no_namespace_surrounds_a_file_that_is_alone(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path)
    (file,) = write_units(toolkit, a="#include <vector>\n")
    assert toolkit.unite((file,)) == f'#include "{toolkit.units}/{file}"\n'


def test_a_program_is_compiled_again_only_if_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = make_toolkit(tmp_path)
    monkeypatch.setitem(PROGRAMS["80"], "cute", write_units(toolkit, a="int a;", b="int b;"))
    runs = toolkit.cuda / "bin" / "runs"
    first = toolkit.build("80", "cute", tmp_path / "out")
    assert toolkit.build("80", "cute", tmp_path / "out") == first
    assert runs.read_text().count("once") == 1
    write_units(toolkit, b="int c;")
    assert toolkit.build("80", "cute", tmp_path / "out") != first
    assert runs.read_text().count("once") == 2


def test_the_first_error_of_the_compiler_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = make_toolkit(tmp_path)
    monkeypatch.setitem(PROGRAMS["80"], "broken", write_units(toolkit, a=""))
    with pytest.raises(NotCompiled, match="no such thing"):
        toolkit.build("80", "broken", tmp_path / "out")


def test_each_target_has_a_client_and_no_file_is_in_two_programs() -> None:
    clients = [one for name, one in CLIENTS.items() if name.startswith("cutlass-")]
    assert [one.environment["CUTLASS_TARGET"] for one in clients] == list(PROGRAMS)
    for programs in PROGRAMS.values():
        files = [file for listed in programs.values() for file in listed]
        assert len(set(files)) == len(files) > 0


def test_what_a_program_prints_decides_the_outcome(tmp_path: Path) -> None:
    names = ("passes", "skips", "absent", "differs", "refused", "killed")
    toolkit = make_toolkit(tmp_path)
    (units,) = write_units(toolkit, unit="".join(f"TEST(Suite, {name}) {{}}\n" for name in names))
    others = {file for files in PROGRAMS["120a"].values() for file in files}
    for file in others:
        (toolkit.units / file).parent.mkdir(parents=True, exist_ok=True)
        (toolkit.units / file).write_text((toolkit.units / units).read_text())
    results = tmp_path / "results.jsonl"
    environment = os.environ | {
        "CUTLASS": str(toolkit.checkout),
        "CUTLASS_CUDA": str(toolkit.cuda),
        "CUTLASS_TARGET": "120a",
        "TESSERA_COMMAND": json.dumps(["echo"]),
        "TESSERA_CLIENT_RESULTS": str(results),
        "PYTHONPATH": str(ROOT / "benchmarks" / "clients" / "reporter"),
        "PATH": f"{toolkit.cuda / 'bin'}:{os.environ['PATH']}",
    }
    (toolkit.cuda / "bin" / "g++").symlink_to("/bin/true")  # googletest's headers are there
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-p", "tessera_reporter", "-p", "no:cacheprovider"),
        *("-c", str(PROGRAM.parent / "pytest.ini"), "--rootdir", str(PROGRAM)),
        *("-k", "f8_f8_f32_tensor_op", str(PROGRAM / "test_gemm.py")),
    )
    subprocess.run(command, env=environment, cwd=PROGRAM, capture_output=True, check=False)
    events = [json.loads(line) for line in results.read_text().splitlines()]
    ends = {one["test"].split(":")[-1][:-1]: one for one in events if one["event"] == "finished"}
    assert {name.split(".")[1]: end["outcome"] for name, end in ends.items()} == {
        "passes": "passed",
        "skips": "skipped",
        "absent": "skipped",
        "differs": "failed",
        "refused": "failed",
        "killed": "failed",
    }
    assert "not equal: Expected equality of these values: 7 8" in ends["Suite.differs"]["headline"]
    assert "tessera: the PTX has an instruction" in ends["Suite.refused"]["headline"]
    assert "signal 9" in ends["Suite.killed"]["headline"]
