"""Kernels that runs of the tests share: equal to new ones, and never those of another compiler."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.execution import prover
from support.execution.both_backends import compiler
from support.kept import kernels
from support.kept.kernels import Kernel
from support.kept.store import Store
from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.target import llvm

VECADD = (Path(__file__).parents[3] / "examples/vecadd.ptx").read_text()
OTHERS = {"boards", "facts", "mig", "rdma", "hca", "device_plugin"}
BLOCK, PLAN = (64, 1, 1), jit.Plan(16, 1)


def kernel(folder: Path, text: str = VECADD) -> Kernel:
    module = compile_ptx(text, capability=(9, 0))
    return Kernel(module, module.functions[0], Store("kernels", folder))


def never() -> None:
    pytest.fail("it was compiled again")


def entries(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def test_a_kernel_is_compiled_once_and_is_the_same_the_second_time(tmp_path):
    module = compile_ptx(VECADD, capability=(9, 0))
    fresh, function = jit.Compiler(), module.functions[0]
    code = fresh.compile(module, function, BLOCK, PLAN)
    text = fresh.emit_llvm(module, function, BLOCK, PLAN)
    plans = list(jit.legal_plans(function, BLOCK))
    assert kernel(tmp_path).native(BLOCK, PLAN, "how", lambda: code) == code
    assert kernel(tmp_path).native(BLOCK, PLAN, "how", never) == code
    assert kernel(tmp_path).text(BLOCK, PLAN, "how", lambda: text) == text
    assert kernel(tmp_path).text(BLOCK, PLAN, "how", never) == text
    assert kernel(tmp_path).plans(BLOCK, "how", lambda: plans) == plans
    found = kernel(tmp_path).plans(BLOCK, "how", never)
    assert found == plans
    assert {type(plan.padding) for plan in found} == {type(plan.padding) for plan in plans}


def test_code_for_another_kind_of_cpu_is_compiled_each_time(tmp_path):
    module = compile_ptx(VECADD, capability=(9, 0))
    other = llvm.SVE if llvm.is_x86() else llvm.AVX2
    with llvm.generating_for(other):
        code = jit.Compiler().compile(module, module.functions[0], BLOCK, PLAN)
        for _ in range(2):
            assert kernel(tmp_path).native(BLOCK, PLAN, "how", lambda: code) is code
    assert entries(tmp_path) == 0


def test_all_on_which_a_text_depends_makes_another_entry(tmp_path):
    def put(text: str = VECADD, block: Block = BLOCK, plan: jit.Plan = PLAN, how: str = "") -> None:
        kernel(tmp_path, text).text(block, plan, how, lambda: "text")

    put()
    put()
    assert entries(tmp_path) == 1
    put(VECADD.replace("add.f32", "sub.f32"))
    put(VECADD.replace("vecadd", "vecsum"))  # the text names the kernel
    put(block=(32, 1, 1))
    put(plan=replace(PLAN, width=8))
    put(how="optimised")
    assert entries(tmp_path) == 6


@pytest.mark.parametrize(
    "source", ["exec/jit/text/writer.py", "isa/table.py", "hal/compute/abi.py"]
)
def test_a_change_of_the_jit_or_of_what_it_imports_makes_another_entry(
    tmp_path, changed_source, source
):
    kernel(tmp_path).text(BLOCK, PLAN, "", lambda: "old")
    with changed_source(source):
        assert kernel(tmp_path).text(BLOCK, PLAN, "", lambda: "new") == "new"
    assert kernel(tmp_path).text(BLOCK, PLAN, "", never) == "old"


def test_all_that_the_jit_imports_is_part_of_the_key():
    """Otherwise a change of it would leave the old kernels in use."""
    root = kernels.root()
    read = [root / name for name in kernels.READ]
    for source in sorted((root / "exec").rglob("*.py")):
        for line in source.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].startswith("vgpu_sim."):
                found = root.joinpath(*words[1].split(".")[1:])
                found = found if found.is_dir() else found.with_suffix(".py")
                assert any(found.is_relative_to(one) for one in read), f"{source}: {line}"
            assert words[:1] != ["from"] or words[1].partition(".")[0] not in OTHERS, line


def test_a_test_that_may_change_the_jit_reads_nothing(monkeypatch):
    assert not kernels.are_stored(), "this test has the fixture monkeypatch"
    module = compile_ptx(VECADD, capability=(9, 0))
    first = compiler().emit_llvm(module, module.functions[0], BLOCK, PLAN)
    monkeypatch.setattr(jit.Compiler, "emit_llvm", lambda *_, **__: "changed")
    assert first != compiler().emit_llvm(module, module.functions[0], BLOCK, PLAN) == "changed"


def test_other_tests_may_read():
    assert kernels.are_stored()


def test_a_proof_is_stored_and_a_failed_one_is_not(tmp_path):
    store = Store("proofs", tmp_path)
    module = compile_ptx(VECADD, capability=(9, 0))
    text = jit.Compiler().emit_llvm(module, module.functions[0], BLOCK, PLAN)
    assert prover.prove(text, store) == prover.prove(text, store) == clamp_proof.prove(text) > 2
    wrong = text.replace("@llvm.umin.i64(i64", "@llvm.umax.i64(i64")
    for _ in range(2):
        with pytest.raises(clamp_proof.NotShown):
            prover.prove(wrong, store)
    assert entries(tmp_path) == 1


def test_a_change_of_the_prover_proves_again(tmp_path, monkeypatch):
    store = Store("proofs", tmp_path)
    monkeypatch.setattr(clamp_proof, "prove", lambda text: 7)
    assert prover.prove("text", store) == 7
    monkeypatch.setattr(clamp_proof, "prove", lambda text: 8)
    assert prover.prove("text", store) == 7
    changed = tmp_path / "proofs/clamp_proof.py"
    changed.parent.mkdir(exist_ok=True)
    changed.write_text("# another")
    monkeypatch.setattr(clamp_proof, "__file__", str(changed))
    prover._prover.cache_clear()
    try:
        assert prover.prove("text", store) == 8
    finally:
        prover._prover.cache_clear()
