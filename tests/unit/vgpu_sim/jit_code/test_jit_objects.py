"""Object code: the cache on disk, loading, and the mapping from a pc to an instruction."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vgpu_sim import isa
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.control.assemble import Assembler
from vgpu_sim.exec.jit.objects import compiler
from vgpu_sim.exec.jit.objects.compiler import content_key
from vgpu_sim.exec.jit.objects.instruction_table import InstructionTable
from vgpu_sim.isa import (
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Predicate,
    Space,
    container,
)
from vgpu_sim.isa.errors import InvalidFunction

_EXAMPLES = Path(__file__).parents[4] / "examples"
_BLOCK = (256, 1, 1)


def vecadd() -> tuple[Module, Function]:
    module = compile_ptx((_EXAMPLES / "vecadd.ptx").read_text(), capability=(8, 0))
    return module, module.functions[0]


def test_a_second_compiler_finds_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, function = vecadd()
    first = jit.Compiler(tmp_path / "cache").compile(module, function, _BLOCK)
    (entry,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr("vgpu_sim.exec.jit.target.llvm.object_code", None)  # compiling would fail
    assert jit.Compiler(tmp_path / "cache").compile(module, function, _BLOCK) == first
    assert entry.stat().st_size > len(first.object_code)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "head", "older"])
def test_a_damaged_entry_is_replaced(tmp_path: Path, damage: str) -> None:
    module, function = vecadd()
    first = jit.Compiler(tmp_path).compile(module, function, _BLOCK)
    (entry,) = tmp_path.iterdir()
    data = bytearray(entry.read_bytes())
    good = bytes(data)
    if damage == "flip":
        data[-100] ^= 1
    elif damage == "head":
        data[60] ^= 1
    elif damage == "older":
        data[: len(b"tessera-object-N")] = b"tessera-object-1"
    entry.write_bytes({"cut": bytes(data[:-1]), "empty": b""}.get(damage, bytes(data)))
    assert jit.Compiler(tmp_path).compile(module, function, _BLOCK) == first
    assert entry.read_bytes() == good


def test_an_entry_of_another_kernel_is_ignored(tmp_path: Path) -> None:
    module, function = vecadd()
    jit.Compiler(tmp_path).compile(module, function, _BLOCK)
    (entry,) = tmp_path.iterdir()
    other = content_key(module, function, (64, 1, 1), None)
    entry.rename(tmp_path / f"{other}.object")
    code = jit.Compiler(tmp_path).compile(module, function, (64, 1, 1))
    assert code == jit.Compiler().compile(module, function, (64, 1, 1))


def test_the_key_depends_on_shape_plan_and_code() -> None:
    module, function = vecadd()
    other = compile_ptx((_EXAMPLES / "saxpy.ptx").read_text(), capability=(8, 0))
    keys = {
        content_key(module, function, _BLOCK, None),
        content_key(module, function, (64, 1, 1), None),
        content_key(module, function, _BLOCK, jit.Plan(16, 1)),
        content_key(other, other.functions[0], _BLOCK, None),
    }
    assert len(keys) == 4


def test_the_key_depends_on_the_generator_and_its_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {compiler._generator.__wrapped__()}
    monkeypatch.setattr(isa, "__path__", [str(tmp_path)])
    for text in ("one", "other"):
        (tmp_path / "families").mkdir(exist_ok=True)
        (tmp_path / "families" / "memory.py").write_text(text)
        keys.add(compiler._generator.__wrapped__())
    assert len(keys) == 3


def test_the_key_depends_on_every_package_of_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "__file__", str(tmp_path / "objects" / "compiler.py"))
    keys = {compiler._generator.__wrapped__()}
    for room in ("objects", "memory", "families"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
        keys.add(compiler._generator.__wrapped__())
    assert len(keys) == 4


def test_every_load_and_store_is_found_from_some_pc() -> None:
    module, function = vecadd()
    compiler = jit.Compiler()
    loaded = compiler.load(compiler.compile(module, function, _BLOCK))
    words = {word for pc in range(loaded.entry, loaded.end) for word in loaded.locate(pc)}
    accessing = {
        word
        for word, instruction in enumerate(function.code)
        if instruction.op in (Op.LD, Op.ST) and instruction.space is not Space.PARAM
    }
    assert accessing <= words
    assert loaded.locate(loaded.entry - 1) == ()
    assert loaded.locate(loaded.end) == ()


def test_instructions_of_an_offset() -> None:
    table = InstructionTable(
        InstructionTable.pack([(0, 0), (8, 3), (12, 3), (16, 0), (20, 8)], {7: (1, 5)})
    )
    found = {offset: table.instructions_at(offset) for offset in (0, 7, 8, 15, 16, 19, 20, 999)}
    assert found == {
        0: (),
        7: (),
        8: (2,),
        15: (2,),
        16: (),
        19: (),
        20: (7, 1, 5),
        999: (7, 1, 5),
    }


def test_damaged_object_code_is_rejected() -> None:
    module, function = vecadd()
    compiler = jit.Compiler()
    code = compiler.compile(module, function, _BLOCK)
    broken = jit.NativeCode(code.symbol, b"\x7fELF" + bytes(100), code.plan, code.block)
    with pytest.raises(jit.CodeGenerationError):
        compiler.load(broken)


_AFTER_WARM_UP = """
import pathlib, sys
from vgpu_sim.isa import container
from vgpu_sim.hal.compute.ports import NativeFault
from vgpu_sim.worker.backends import jit
jit.prepare()
backend = jit.JitBackend()
class Closed:
    def find_spec(self, name, path=None, target=None):
        raise ImportError(f"{name} is imported after the warm-up")
sys.meta_path.insert(0, Closed())
backend.use_cache(pathlib.Path(sys.argv[1]))
program = backend.load(pathlib.Path(sys.argv[2]).read_bytes(), 0)
entry = backend.entry(program, "vecadd", (256, 1, 1), print).address
found = {backend.locate(NativeFault(entry + offset)) for offset in range(600)}
print(sum(one is not None and one.site.ptx_line > 0 for one in found))
"""


def test_a_worker_that_has_warmed_up_imports_nothing_more(tmp_path: Path) -> None:
    """The product's files are removed after the warm-up, which compiles nothing itself after
    ``prepare``.
    """
    module, _ = vecadd()
    image = tmp_path / "vecadd.container"
    image.write_bytes(container.encode(module))
    command = [sys.executable, "-c", _AFTER_WARM_UP, str(tmp_path / "cache"), str(image)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 3


def test_llvm_text_is_available() -> None:
    module, function = vecadd()
    text = jit.Compiler().emit_llvm(module, function, _BLOCK)
    assert "define void @entry(" in text
    assert " fast " not in text
    assert "<16 x float>" in text or "<8 x float>" in text or "<4 x float>" in text


def test_unsupported_code_is_named() -> None:
    guard = Guard(Predicate(0))
    backwards = [Instruction(Op.BRA, guard=guard, target=257 - n) for n in range(1, 258)]
    code = (*[Instruction(Op.NOP)] * 257, *backwards, Instruction(Op.RET))
    function = Function("deep", (), 0, (), 1, code, (0,) * len(code))
    with pytest.raises(jit.UnsupportedError, match="deep: more than 256 loops"):
        jit.Compiler().compile(Module((function,)), function, _BLOCK)


def test_code_that_the_instruction_set_does_not_define_is_rejected() -> None:
    code = (Instruction(Op.ADD, DataType.F32, (), (Literal(1),)), Instruction(Op.RET))
    function = Function("bad", (), 0, (), 0, code, (0, 0))
    with pytest.raises(InvalidFunction):
        jit.Compiler().compile(Module((function,)), function, _BLOCK)


def test_an_illegal_plan_is_rejected() -> None:
    module, function = vecadd()
    with pytest.raises(jit.PlanError):
        jit.Compiler().compile(module, function, (24, 1, 1), jit.Plan(16, 1))


def _refusing(monkeypatch: pytest.MonkeyPatch, refused: Callable[[jit.Plan], bool]) -> None:
    """Make LLVM reject the text of some plans."""
    write = Assembler.text

    def text(assembler: Assembler) -> str:
        return "nonsense" if refused(assembler.plan) else write(assembler)

    monkeypatch.setattr(Assembler, "text", text)


def test_a_plan_whose_text_llvm_rejects_is_replaced_by_the_simplest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, function = vecadd()
    _refusing(monkeypatch, lambda plan: plan.width > 1)
    code = jit.Compiler().compile(module, function, _BLOCK)
    assert code.plan == jit.Plan(1, 1, versioned=False, tier=0)
    assert "vecadd, Plan(width=" in caplog.text


def test_an_error_of_all_plans_names_kernel_and_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, function = vecadd()
    _refusing(monkeypatch, lambda plan: True)
    with pytest.raises(jit.CodeGenerationError, match=r"(?s)vecadd, Plan\(.*\), block .*lane by"):
        jit.Compiler().compile(module, function, _BLOCK)
    with pytest.raises(
        jit.CodeGenerationError, match=r"vecadd, Plan\(width=4, vectors=1"
    ) as caught:
        jit.Compiler().compile(module, function, _BLOCK, jit.Plan(4, 1))
    assert "lane by lane" not in str(caught.value)


def _failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the generator fail on all plans but the simplest, as a defect would."""
    write = Assembler.text

    def text(assembler: Assembler) -> str:
        assert assembler.plan.width == 1, "not affine"
        return write(assembler)

    monkeypatch.setattr(Assembler, "text", text)


def test_a_plan_that_fails_in_the_generator_is_replaced_by_the_simplest_for_users(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, function = vecadd()
    _failing(monkeypatch)
    code = jit.Compiler(forgiving=True).compile(module, function, _BLOCK)
    assert code.plan == jit.Plan(1, 1, versioned=False, tier=0)
    assert "vecadd, block (" in caplog.text
    assert "AssertionError: not affine" in caplog.text
    with pytest.raises(AssertionError, match="not affine"):
        jit.Compiler(forgiving=True).compile(module, function, _BLOCK, jit.Plan(16, 1))


def test_tests_of_plans_get_the_generators_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, function = vecadd()
    _failing(monkeypatch)
    with pytest.raises(AssertionError, match="not affine"):
        jit.Compiler().compile(module, function, _BLOCK)


def test_first_tier_code_that_fails_in_the_generator_is_omitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, function = vecadd()
    assert jit.Compiler(forgiving=True).compile_first_tier(module, function, _BLOCK) is not None
    _failing(monkeypatch)
    assert jit.Compiler(forgiving=True).compile_first_tier(module, function, _BLOCK) is None
    assert "AssertionError: not affine" in caplog.text
