"""Cached objects can be read again, and unusable ones are reported."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.execution import both_backends, native_launch
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.control.assemble import ENTRY, Assembler
from vgpu_sim.exec.jit.objects import cache, compiler, native_code
from vgpu_sim.exec.jit.objects.compiler import SIMPLEST, content_key
from vgpu_sim.hal.compute.ports import NativeEntry
from vgpu_sim.isa import container
from vgpu_sim.worker.backends.jit import JitBackend

LIMIT = native_code.MAX_STACK_BYTES
BLOCK = (1024, 1, 1)
# Threads exchange values across barriers in a loop, so that a block runs as groups with stacks.
MODULE = compile_verified(
    kernel(
        """ld.param.u64 %d, [p]; mov.u32 %t, %tid.x; mov.u32 %v, %t; mov.u32 %n, 0;
        mov.u32 %s, s; shl.b32 %a, %t, 2; add.u32 %a, %s, %a;
        xor.b32 %u, %t, 1023; shl.b32 %u, %u, 2; add.u32 %u, %s, %u;
        AGAIN:
        st.shared.u32 [%a], %v; bar.sync 0; ld.shared.u32 %v, [%u]; bar.sync 0;
        add.u32 %n, %n, 1; setp.lt.u32 %more, %n, 3; @%more bra AGAIN;
        mul.wide.u32 %o, %t, 4; add.u64 %d, %d, %o; st.global.u32 [%d], %v;""",
        ".param .u64 p",
        registers=".reg .pred %more; .reg .b64 %d, %o; .reg .b32 %t, %a, %s, %u, %v, %n;"
        ".shared .b32 s[1024];",
    )
)
FUNCTION = MODULE.functions[0]


def _with_stacks_of(monkeypatch: pytest.MonkeyPatch, stack_bytes: int, most_lanes: int) -> None:
    """Make code with ``most_lanes`` or more per vector need that much stack."""
    real = Assembler.stack_bytes.fget
    assert real is not None

    def stack_needed(assembler: Assembler) -> int:
        wide = assembler.plan.width >= most_lanes
        return stack_bytes if wide else int(real(assembler))

    monkeypatch.setattr(Assembler, "stack_bytes", property(stack_needed))


@pytest.mark.parametrize("stack_bytes", [17 << 20, 20_036_224, LIMIT - 1, LIMIT])
def test_compiled_code_of_any_stack_size_is_read_again(
    stack_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_stacks_of(monkeypatch, stack_bytes, 1)
    first = jit.Compiler(tmp_path).compile(MODULE, FUNCTION, BLOCK)
    assert first.stack_bytes == stack_bytes
    monkeypatch.setattr("vgpu_sim.exec.jit.target.llvm.object_code", None)  # compiling would fail
    again = jit.Compiler(tmp_path)
    assert again.compile(MODULE, FUNCTION, BLOCK) == first
    assert not again.refused_keys


def test_a_plan_that_exceeds_the_stack_is_replaced_by_the_simplest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _with_stacks_of(monkeypatch, LIMIT + 1, 2)
    code = jit.Compiler(tmp_path).compile(MODULE, FUNCTION, BLOCK)
    assert code.plan == SIMPLEST
    assert f"a group of lanes needs {LIMIT + 1} bytes of stack; the limit is {LIMIT}" in caplog.text
    _with_stacks_of(monkeypatch, LIMIT + 1, 1)
    with pytest.raises(CodeGenerationError, match=f"{LIMIT + 1} bytes of stack.* lane by lane"):
        jit.Compiler().compile(MODULE, FUNCTION, BLOCK)


def test_the_value_and_its_bytes_have_the_same_limit() -> None:
    code = jit.Compiler().compile(MODULE, FUNCTION, BLOCK)
    most = replace(code, stack_bytes=LIMIT).to_bytes()
    assert native_code.NativeCode.from_bytes(most, ENTRY, BLOCK).stack_bytes == LIMIT
    with pytest.raises(ValueError, match="bytes of stack"):
        replace(code, stack_bytes=LIMIT + 1)
    digits = len(str(LIMIT))
    place = most.index(str(LIMIT).encode())
    for wrong in (LIMIT + 1, -1, 1 << 40):
        data = most[:place] + str(wrong).encode() + most[place + digits :]
        with pytest.raises(ValueError, match="bytes of stack"):
            native_code.NativeCode.from_bytes(data, ENTRY, BLOCK)


def test_a_worker_provides_the_stacks_of_the_limit() -> None:
    """The maximum number of groups, each with the maximum stack: this costs only addresses."""
    bench = both_backends.Bench(bytes(4096))
    try:
        compiled = compiler.Compiler().compile(MODULE, FUNCTION, BLOCK, jit.Plan(1, 1, tier=0))
        assert compiled.groups == 1024
        loaded = both_backends.compiler().load(replace(compiled, stack_bytes=LIMIT))
        launch = native_launch.context(bench.aperture, (1, 1, 1), BLOCK)
        address = bench.buffers[0].address.to_bytes(8, "little")
        ended = native_launch.run(loaded, launch, address, [(0, 1)], FUNCTION.shared_bytes)
        assert (ended.status, ended.signal) == (0, 0)
        assert (bench.buffers[0].as_type("<u4") == np.arange(1024)[::-1]).all()
    finally:
        bench.close()


def test_an_unreadably_large_entry_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code = jit.Compiler(tmp_path).compile(MODULE, FUNCTION, BLOCK)
    (entry,) = tmp_path.iterdir()
    size = entry.stat().st_size
    entry.unlink()
    monkeypatch.setattr(cache, "MAX_ENTRY_BYTES", size - 1)
    assert jit.Compiler(tmp_path).compile(MODULE, FUNCTION, BLOCK) == code
    assert not list(tmp_path.iterdir())
    assert f"is not cached: an entry has {size} bytes; the limit is {size - 1}" in caplog.text
    monkeypatch.setattr(cache, "MAX_ENTRY_BYTES", size)
    jit.Compiler(tmp_path).compile(MODULE, FUNCTION, BLOCK)
    key = content_key(MODULE, FUNCTION, BLOCK, None)
    assert jit.Compiler(tmp_path).load_cached(key, BLOCK) == code


def _entry(directory: Path) -> NativeEntry:
    """Prepare the kernel as a worker does, in a context of its own."""
    backend = JitBackend()
    backend.use_cache(directory)
    program = backend.load(container.encode(MODULE), 0)
    return backend.entry(program, FUNCTION.name, BLOCK, lambda better: None)


@pytest.mark.parametrize("damage", ["head", "object", "not for this machine"])
def test_a_stored_object_that_cannot_be_used_is_logged_and_counted(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The entry's digest is correct, as if another version of the generator, or its owner, wrote
    it.
    """
    caplog.set_level(logging.WARNING)
    assert _entry(tmp_path).refused == 0
    (path,) = tmp_path.iterdir()
    good, key = path.read_bytes(), path.stem
    body = cache.load(tmp_path, key)
    assert body is not None
    if damage == "head":
        body = body.replace(b'"groups": ', b'"groups": 7', 1)
    elif damage == "object":
        body = body[:-64]
    else:
        begin = body.index(b"\x7fELF") + 18
        body = body[:begin] + b"\xff\xff" + body[begin + 2 :]
    cache.store(tmp_path, key, body)
    assert _entry(tmp_path).refused == 1
    assert f"cached object {key} is rejected and compiled again: " in caplog.text
    assert path.read_bytes() == good
    assert _entry(tmp_path).refused == 0


def test_a_stored_object_that_does_not_link_is_logged_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _entry(tmp_path)
    load = compiler.Compiler.load
    failures = iter([CodeGenerationError("cannot link object code")])

    def fail_once(self: compiler.Compiler, code: native_code.NativeCode) -> compiler.Loaded:
        if code.groups:  # not the warm-up kernel's
            for error in failures:
                raise error
        return load(self, code)

    monkeypatch.setattr(compiler.Compiler, "load", fail_once)
    assert _entry(tmp_path).refused == 1
    assert "compiled again: cannot link object code" in caplog.text
