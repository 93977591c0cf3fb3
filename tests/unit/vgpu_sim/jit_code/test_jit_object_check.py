"""Objects that could have side effects when they are linked are rejected."""

import ctypes
from pathlib import Path

import pytest

from support.processes import hostile_objects
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.objects import cache
from vgpu_sim.exec.jit.objects.compiler import content_key
from vgpu_sim.exec.jit.objects.object_check import check

_EXAMPLES = Path(__file__).parents[4] / "examples"
_BLOCK = (256, 1, 1)
_KERNEL = "define void @entry() nounwind { ret void }\n"

HOSTILE = {
    "an initialiser of LLJIT": 'define void @"__orc_init_func.x"() { ret void }',
    "a local one": (
        'define internal void @"__orc_init_func.x"() noinline { ret void }\n'
        'define void @entry() { call void @"__orc_init_func.x"() ret void }'
    ),
    "a constructor": (
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]"
        " [{ i32, ptr, ptr } { i32 1, ptr @entry, ptr null }]"
    ),
    "a destructor": (
        "@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }]"
        " [{ i32, ptr, ptr } { i32 1, ptr @entry, ptr null }]"
    ),
    "a section of constructors by name": (
        '@hook = constant ptr @entry, section ".init_array.100"'
    ),
    "a second function": "define void @other() { ret void }",
    "a weak one": "define weak void @other() { ret void }",
    "a name from outside": "declare void @system()\ndefine internal void @f() noinline {"
    " call void @system() ret void }\ndefine void @entry() { call void @f() ret void }",
    "writable data": "@data = internal global i32 7\ndefine void @entry() {"
    " store volatile i32 8, ptr @data ret void }",
    "writable data under a harmless name": (
        'module asm ".section .rodata.data,\\22aw\\22,@progbits"\nmodule asm ".quad 0"\n'
    ),
    "constructors under a harmless name": (
        'module asm ".section .rodata.hook,\\22a\\22,@init_array"\nmodule asm ".quad 0"\n'
    ),
    "thread-local data": "@data = internal thread_local global i32 7\ndefine void @entry() {"
    " store volatile i32 8, ptr @data ret void }",
}  # fmt: skip


def text_of(name: str) -> str:
    text = (
        HOSTILE[name]
        .replace("() {", "() nounwind {")
        .replace("() noinline", "() nounwind noinline")
    )
    return text if "void @entry()" in text else _KERNEL + text


@pytest.mark.parametrize("name", HOSTILE)
def test_objects_that_the_generator_never_emits_are_rejected(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not allowed in an object|must have only the global symbol"
    ):
        check(hostile_objects.object_of(text_of(name)), "entry")


def test_a_plain_kernel_is_accepted_under_its_own_name_only() -> None:
    plain = hostile_objects.object_of(_KERNEL)
    check(plain, "entry")
    with pytest.raises(ValueError, match="only the global symbol 'other'"):
        check(plain, "other")


@pytest.mark.parametrize("example", sorted(_EXAMPLES.glob("*.ptx")), ids=lambda path: path.stem)
def test_every_example_comes_back_from_the_cache(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = compile_ptx(example.read_text(), capability=(9, 0))
    for function in module.functions:
        first = jit.Compiler(tmp_path).compile(module, function, _BLOCK)
        with monkeypatch.context() as patched:
            patched.setattr("vgpu_sim.exec.jit.target.llvm.object_code", None)
            assert jit.Compiler(tmp_path).compile(module, function, _BLOCK) == first


def test_every_truncation_and_many_changes_are_rejected_or_harmless() -> None:
    plain = hostile_objects.object_of(_KERNEL)
    for end in range(0, len(plain), 7):
        with pytest.raises(ValueError):
            check(plain[:end], "entry")
    for place in range(64):  # the file header
        changed = bytearray(plain)
        changed[place] ^= 0xFF
        try:
            check(bytes(changed), "entry")
        except ValueError:
            continue


def test_unchecked_hostile_objects_run_their_attack(tmp_path: Path) -> None:
    """A marker that is missing after an attack proves that the attack did not run."""

    def load(object_code: bytes) -> jit.Loaded:
        return jit.Compiler().load(
            jit.NativeCode("entry", object_code, jit.Plan(16, 1), _BLOCK, 16)
        )

    linked, called = tmp_path / "linked", tmp_path / "called"
    load(hostile_objects.kernel_with_initialiser(linked))
    assert linked.exists()
    loaded = load(hostile_objects.kernel_that_creates(called))
    assert not called.exists()
    ctypes.CFUNCTYPE(None)(loaded.entry)()
    assert called.exists()


def test_a_planted_entry_is_replaced_by_the_next_compilation(tmp_path: Path) -> None:
    module = compile_ptx((_EXAMPLES / "vecadd.ptx").read_text(), capability=(8, 0))
    function = module.functions[0]
    good = jit.Compiler().compile(module, function, _BLOCK)
    evil = hostile_objects.kernel_with_initialiser(tmp_path / "marker")
    key = content_key(module, function, _BLOCK, None)
    planted = jit.NativeCode(good.symbol, evil, good.plan, _BLOCK, 16)
    cache.store(tmp_path, key, planted.to_bytes())
    assert jit.Compiler(tmp_path).compile(module, function, _BLOCK) == good
    assert jit.NativeCode.from_bytes(cache.load(tmp_path, key) or b"", "entry", _BLOCK) == good


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b"{}",
        b'{"plan": {}, "code_bytes": 1, "words_bytes": 0}',
        b'{"plan": {"width": 16, "vectors": 1}, "code_bytes": 1, "words_bytes": 99999}',
        b'{"plan": {"width": 16, "vectors": 1}, "code_bytes": 1, "words_bytes": -1}',
        b'{"plan": {"width": 16, "vectors": 1}, "code_bytes": "x", "words_bytes": 0}',
        b'{"plan": {"width": 7, "vectors": 1}, "code_bytes": 1, "words_bytes": 0}',
        b'{"plan": {"width": "x", "vectors": 1}, "code_bytes": 1, "words_bytes": 0}',
    ],
)
def test_a_damaged_head_is_a_miss(head: bytes) -> None:
    plain = hostile_objects.object_of(_KERNEL)
    with pytest.raises(ValueError):
        jit.NativeCode.from_bytes(head + b"\n" + plain, "entry", _BLOCK)
