"""Rows of CUDA's rules hold for PyTorch's stock wheel under ``tessera run``.

A sample of rows, one for each way in which operands and results are rounded: `make torch rules=1`
compares all. Skipped where the wheel is not installed (``support.processes.torch_program``).
"""

import json
from pathlib import Path

import pytest

from benchmarks.torch.rules import report
from support.processes.tessera_run import REPOSITORY
from support.processes.torch_program import run_program

_PROGRAM = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
_RULES = REPOSITORY / "benchmarks" / "torch" / "program" / "rules.py"


def compare(out: Path, rows: tuple[str, ...], dtypes: tuple[str, ...]) -> list[report.Record]:
    """Compare rows in some types with the device; return the records."""
    chosen = [argument for dtype in dtypes for argument in ("--dtype", dtype)]
    run_program(_PROGRAM, str(_RULES), str(out), *rows, *chosen)
    records = report.read(out)
    assert {record["name"] for record in records} == set(rows)
    return records


@pytest.mark.slow
def test_operands_and_results_are_rounded_as_cuda_rounds_them(tmp_path: Path) -> None:
    rows = ("eq", "linspace", "sqrt.complex", "any", "nn.functional.mse_loss", "floor.out")
    records = compare(tmp_path / "rules.jsonl", rows, ("bfloat16", "uint8", "complex64", "float32"))
    assert report.is_as_expected(records), report.render(records, [])


@pytest.mark.slow
def test_lists_and_fused_optimizers_divide(tmp_path: Path) -> None:
    rows = ("_foreach_div", "_foreach_div_", "_fused_adam_", "_fused_sgd_")
    records = compare(tmp_path / "rules.jsonl", rows, ("bfloat16", "float32"))
    assert report.is_as_expected(records), report.render(records, [])


@pytest.mark.slow
def test_refused_operators_print_no_trace(tmp_path: Path) -> None:
    records = compare(tmp_path / "rules.jsonl", ("add",), ("float8_e5m2", "float8_e4m3fn"))
    assert sum(record["refused"] for record in records) == 2, json.dumps(records)
    assert report.is_as_expected(records), report.render(records, [])
