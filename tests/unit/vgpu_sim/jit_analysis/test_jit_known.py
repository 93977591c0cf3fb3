"""Value numbering: expressions that are written once, and the places where they are forgotten."""

import pytest

from vgpu_sim.exec.jit.text.writer import Shared, Text

_READ = "load i32, ptr %p, align 1"
_GATHER = "call <4 x i32> @llvm.masked.gather.v4i32.v4p0(<4 x ptr> %p)"


def _text() -> Text:
    return Text(Shared(), 1, 4)


def test_an_expression_is_written_once() -> None:
    text = _text()
    name = text.let("add i32 %a, 1")
    assert text.let("add i32 %a, 1") == name
    assert text.let("add i32 %a, 2") != name
    assert len(text.body) == 2


@pytest.mark.parametrize("read", [_READ, _GATHER])
@pytest.mark.parametrize(
    "write",
    [
        "store i32 1, ptr %q, align 1",
        "call void @llvm.masked.store.v4i32.p0(<4 x i32> %v, ptr %q, <4 x i1> %m)",
        'fence syncscope("singlethread") seq_cst',
    ],
)
def test_memory_is_read_again_after_a_write(read: str, write: str) -> None:
    text = _text()
    first, number = text.let(read), text.let("add i32 %a, 1")
    assert text.let(read) == first
    text.do(write)
    assert text.let(read) != first
    assert text.let("add i32 %a, 1") == number


def test_each_call_of_a_version_is_emitted_and_may_write() -> None:
    text = _text()
    read, call = text.let(_READ), text.let("call i1 @exact_version(ptr %ctx)")
    assert text.let("call i1 @exact_version(ptr %ctx)") != call
    assert text.let(_READ) != read


def test_constants_of_a_launch_outlast_writes() -> None:
    text = _text()
    constant = text.let(f"{_READ}, !invariant.load !0")
    text.do("store i32 1, ptr %q, align 1")
    assert text.let(f"{_READ}, !invariant.load !0") == constant


def test_a_block_forgets_unless_it_follows_from_the_text_before() -> None:
    text = _text()
    name = text.let("add i32 %a, 1")
    text.begin("onward", follows=True)
    assert text.let("add i32 %a, 1") == name
    text.begin("elsewhere")
    assert text.let("add i32 %a, 1") != name


def test_expressions_of_conditional_code_are_forgotten_but_its_writes_are_not() -> None:
    text = _text()
    outside, read = text.let("add i32 %a, 1"), text.let(_READ)
    with text.known.open_scope():
        inside = text.let("add i32 %a, 2")
        assert text.let("add i32 %a, 1") == outside
        assert text.let(_READ) == read
        text.do("store i32 1, ptr %q, align 1")
    assert text.let("add i32 %a, 1") == outside
    assert text.let("add i32 %a, 2") != inside
    assert text.let(_READ) != read


def test_the_prologue_knows_nothing_of_the_body_but_the_body_all_of_it() -> None:
    text = _text()
    name = text.let("add i32 %a, 1")
    with text.in_prologue():
        early = text.let("add i32 %b, 1")
        assert text.let("add i32 %a, 1") != name
    text.begin("elsewhere")
    assert text.let("add i32 %b, 1") == early


def test_a_block_with_other_predecessors_within_conditional_code() -> None:
    text = _text()
    name = text.let("add i32 %a, 1")
    with text.known.open_scope():
        text.begin("elsewhere")
        assert text.let("add i32 %a, 1") != name
        inner = text.let("add i32 %a, 2")
    assert text.let("add i32 %a, 2") != inner
