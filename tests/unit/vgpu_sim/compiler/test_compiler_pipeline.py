"""Stages, targets, error logs and the binding's document."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from support.execution.interpreted_ptx import kernel
from vgpu_sim import compiler
from vgpu_sim.compiler import (
    Diagnostic,
    InvalidPtxError,
    PtxError,
    PtxSyntaxError,
    TargetError,
    UnsupportedPtxError,
    binding,
    pipeline,
)
from vgpu_sim.isa import Op

ROOT = Path(__file__).parents[4]
SOURCE = kernel("mov.u32 %r0, %tid.x;", registers=".reg .b32 %r<1>;").replace("sm_100a", "sm_80")


def test_public_names() -> None:
    assert sorted(compiler.__all__) == compiler.__all__
    assert {name for name in compiler.__all__ if not hasattr(compiler, name)} == set()


def test_importing_the_compiler_loads_neither_numpy_nor_llvm() -> None:
    """Workers and the command line import it; both start in milliseconds."""
    code = "import sys, vgpu_sim.compiler; print({'numpy', 'llvmlite', 'click'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_stages_run_in_order_and_can_be_watched() -> None:
    seen: list[tuple[str, bool, bool]] = []
    start = pipeline.Compilation(SOURCE, (8, 0))
    done = pipeline.run(
        start,
        observe=lambda name, c: seen.append((name, c.syntax is not None, c.module is not None)),
    )
    assert seen == [
        ("parse", True, False),
        ("target", True, False),
        ("legality", True, False),
        ("lower", True, True),
        ("operands", True, True),
        ("allocate", True, True),
    ]
    assert done.module == compiler.compile_ptx(SOURCE, capability=(8, 0))
    with pytest.raises(ValueError, match="run 'parse' first"):
        pipeline.run(start, pipeline.STAGES[1:])


def test_the_module_carries_source_version_and_capability() -> None:
    module = compiler.compile_ptx(SOURCE.encode() + b"\0", capability=(9, 0))
    assert module.source == SOURCE
    assert (module.ptx_version, module.required_capability) == ((9, 4), (8, 0))
    assert [i.op for i in module.functions[0].code] == [Op.S2R, Op.RET]


@pytest.mark.parametrize(
    ("target", "runs_on", "not_on"),
    [
        ("sm_80", [(8, 0), (8, 6), (9, 0), (12, 1)], [(7, 5)]),
        ("sm_52", [(8, 0)], [(5, 0)]),
        ("sm_90a", [(9, 0)], [(8, 9), (10, 0)]),
        ("sm_100f", [(10, 0), (10, 3)], [(9, 0), (11, 0), (12, 0)]),
        ("sm_103f", [(10, 3)], [(10, 0), (12, 0)]),
        ("sm_120a, debug", [(12, 0)], [(12, 1)]),
        ("sm_75, texmode_independent", [(8, 0)], [(7, 0)]),
    ],
)
def test_targets(
    target: str, runs_on: list[tuple[int, int]], not_on: list[tuple[int, int]]
) -> None:
    source = SOURCE.replace("sm_80", target)
    for capability in runs_on:
        compiler.compile_ptx(source, capability=capability)
    for capability in not_on:
        with pytest.raises(TargetError) as caught:
            compiler.compile_ptx(source, capability=capability)
        assert caught.value.diagnostics[0].line == 2


def test_a_target_is_refused_before_anything_else_is_looked_at() -> None:
    with pytest.raises(TargetError):
        compiler.compile_ptx(SOURCE.replace("%tid.x", "%perctamemorysize"), capability=(7, 0))


@pytest.mark.parametrize("target", ["compute_80", "sm_", "sm_80x", "sm_8000", "sm_80, frob"])
def test_what_is_no_target(target: str) -> None:
    with pytest.raises(PtxSyntaxError):
        compiler.compile_ptx(SOURCE.replace("sm_80", target), capability=(9, 0))


def test_an_option_that_changes_meaning_is_refused() -> None:
    with pytest.raises(UnsupportedPtxError, match="map_f64_to_f32"):
        compiler.compile_ptx(SOURCE.replace("sm_80", "sm_80, map_f64_to_f32"), capability=(9, 0))


def test_capability_of_a_file_is_the_least_that_runs_it() -> None:
    assert compiler.capability_of(SOURCE) == (8, 0)
    assert compiler.capability_of(SOURCE.replace("sm_80", "sm_121a")) == (12, 1)


def test_errors_are_one_tree_with_names_and_places() -> None:
    for source, error in [
        ("nonsense", PtxSyntaxError),
        (SOURCE.replace("%r0", "%r1"), InvalidPtxError),
        (SOURCE.replace("%tid.x", "%perctamemorysize"), UnsupportedPtxError),
        (SOURCE.replace("sm_80", "sm_99"), TargetError),
    ]:
        with pytest.raises(PtxError) as caught:
            compiler.compile_ptx(source, capability=(9, 0), name="k.ptx")
        assert type(caught.value) is error
        assert caught.value.log().startswith("k.ptx:")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), copy.log()) == (error, caught.value.log())


def test_a_log_fits_its_buffer() -> None:
    """As in JIT error logs: whole lines, an ellipsis where lines are cut, never a byte too many."""
    findings = [Diagnostic(line, 1, "é" * 20, "add " * line) for line in range(1, 40)]
    error = UnsupportedPtxError(findings, "x.ptx")
    whole = error.log()
    assert whole.count("\n") == 2 * len(findings)
    for size in range(len(whole.encode()) + 5):
        log = error.log(size)
        assert len(log.encode()) <= size
        assert log == whole or log == "" or log.endswith("...\n")
        assert whole.startswith(log.removesuffix("...\n"))
    assert error.log(len(whole.encode())) == whole
    assert len(str(error)) <= 4096


def test_texts_of_instructions_are_cut() -> None:
    error = InvalidPtxError([Diagnostic(1, 1, "m", "x" * 10_000)])
    assert error.log() == f"<ptx>:1:1: m\n    {'x' * 157}...\n"


def test_the_document_is_what_the_tables_say() -> None:
    """Update it with ``python -m vgpu_sim.compiler.binding > docs/binding.md``."""
    assert (ROOT / "docs" / "binding.md").read_text() == binding.render()
