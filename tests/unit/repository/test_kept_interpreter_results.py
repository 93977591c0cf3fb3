"""Results of the interpreter that runs of the tests share: of the same launch only."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.kept import interpreter_results, kernels
from support.kept.store import Store
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import Module

VECADD = (Path(__file__).parents[3] / "examples/vecadd.ptx").read_text()
MODULE = compile_ptx(VECADD, capability=(9, 0))
LAUNCH = (1, 1, 1), (32, 1, 1)
BEFORE = [(4096, b"ab"), (8192, b"")]
AFTER = [b"cd", b""]


def never() -> list[bytes]:
    pytest.fail("it was computed again")


def run(folder: Path, make, module: Module | str = MODULE, launch: object = LAUNCH, before=BEFORE):
    return interpreter_results.run(module, launch, before, make, Store("interpreter", folder))


def test_an_equal_launch_is_computed_once(tmp_path):
    assert run(tmp_path, lambda: AFTER) == AFTER
    assert run(tmp_path, never) == AFTER


@pytest.mark.parametrize(
    "other",
    [
        {"module": compile_ptx(VECADD.replace("add.f32", "sub.f32"), capability=(9, 0))},
        {"module": replace(MODULE, functions=(replace(MODULE.functions[0], shared_bytes=16),))},
        {"module": VECADD},
        {"launch": ((2, 1, 1), (32, 1, 1))},
        {"before": [(4096, b"ac"), (8192, b"")]},
        {"before": [(4096, b"a"), (8192, b"b")]},
        {"before": [(4097, b"ab"), (8192, b"")]},
    ],
)
def test_another_launch_is_computed(tmp_path, other):
    run(tmp_path, lambda: AFTER)
    assert run(tmp_path, lambda: [b"ef", b"g"], **other) == [b"ef", b"g"]
    assert run(tmp_path, never) == AFTER


def test_another_interpreter_computes_again(tmp_path, monkeypatch, changed_source):
    monkeypatch.setattr(kernels, "are_stored", lambda: True)
    run(tmp_path, lambda: AFTER)
    assert run(tmp_path, never) == AFTER
    with changed_source("exec/interp/__init__.py"):
        assert run(tmp_path, lambda: [b"ef", b""]) == [b"ef", b""]


def test_another_compiler_computes_what_ptx_left_again(tmp_path, monkeypatch, changed_source):
    monkeypatch.setattr(kernels, "are_stored", lambda: True)
    run(tmp_path, lambda: AFTER)
    run(tmp_path, lambda: AFTER, VECADD)
    with changed_source("compiler/__init__.py"):
        assert run(tmp_path, never) == AFTER
        assert run(tmp_path, lambda: [b"ef", b""], VECADD) == [b"ef", b""]


def test_a_test_that_may_change_the_interpreter_stores_nothing(tmp_path, monkeypatch):
    run(tmp_path, lambda: AFTER)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_large_memory_is_computed_each_time(tmp_path):
    large = [(4096, bytes(interpreter_results.MOST_BYTES + 1))]
    run(tmp_path, lambda: AFTER, before=large)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
