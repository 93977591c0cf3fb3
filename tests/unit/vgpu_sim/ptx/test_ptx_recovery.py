"""Every error of a file is found in one run: the parser continues after a wrong statement."""

import random

import pytest
from click.testing import CliRunner

from vgpu_sim import compiler
from vgpu_sim.cli.main import main
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError
from vgpu_sim.compiler.ptx import recovery

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
BODY = HEAD + (
    ".visible .entry f(.param .u64 p) {\n  .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .pred %p1;\n"
)
FIRST = 6  # the line after BODY

WRONG = (
    "ad.f32 %f1, %f1, %f2;",
    "add.f32 %f1, %f1 %f2;",
    "add.f32 %f1, %f1, %f2",  # no semicolon
    "ld.global.v2.f32 {%f1 %f2}, [%rd1];",
    "add.qq.f32 %f1, %f1, %f2;",
    "@%p1, bra OUT;",
    ".reg .f33 %q<3>;",
    "mov.f32 %f1, ;",
    "{ muul.f32 %f1; }",
    "call (%f1, foo;",
)
RIGHT = ("mov.f32 %f1, %f2;", "ld.global.f32 %f1, [%rd1];", "{ add.f32 %f1, %f1, %f2; }", "L{}:")


def lines_of(text: str) -> list[int]:
    with pytest.raises(PtxSyntaxError) as raised:
        compiler.compile_ptx(text, capability=(9, 0))
    return [one.line for one in raised.value.diagnostics]


@pytest.mark.parametrize("wrong", WRONG)
def test_each_kind_of_error_leaves_the_next_statement_to_be_read(wrong: str) -> None:
    text = BODY + f"  {wrong}\n  mov.f32 %f1, %f2;\n  {WRONG[0]}\n  ret;\n}}\n"
    found = lines_of(text)
    # A missing semicolon is found where the next statement begins.
    assert found[0] in (FIRST, FIRST + 1)
    assert found[1:] == [FIRST + 2]


@pytest.mark.parametrize("seed", range(40))
def test_exactly_the_wrong_statements_are_found(seed: int) -> None:
    chosen = random.Random(seed)
    statements = []
    for number in range(30):
        if chosen.random() < 0.3:
            statements.append((chosen.choice([one for one in WRONG if one.endswith(";")]), True))
        else:
            statements.append((chosen.choice(RIGHT).replace("{}", str(number)), False))
    text = BODY + "".join(f"  {statement}\n" for statement, _ in statements) + "  ret;\n}\n"
    expected = [FIRST + at for at, (_, wrong) in enumerate(statements) if wrong]
    if expected:
        assert lines_of(text) == expected


def test_declarations_and_further_functions_are_read_on() -> None:
    text = (
        HEAD
        + ".visible .entry g(.param .u64 p, {\n  ret;\n}\n"
        + ".global .u33 x;\n.global .u32 y;\n.visible .entry h() {\n  mul %f1;\n  ret;\n}\n"
    )
    assert lines_of(text) == [4, 7, 10]


def test_a_lexical_error_ends_the_search_with_earlier_findings() -> None:
    text = BODY + "  ad.f32 %f1, %f1, %f2;\n  ret;\n} /* no end"
    assert lines_of(text)[0] == FIRST
    assert len(lines_of(text)) == 2


def test_a_body_without_an_end_keeps_what_was_found() -> None:
    found = lines_of(BODY + "  ad.f32 %f1;\n  bd.f32 %f1;\n")
    assert found[:2] == [FIRST, FIRST + 1]


def test_the_number_of_errors_is_bounded() -> None:
    text = BODY + "  ad;\n" * (recovery.MAX_ERRORS + 500) + "}\n"
    with pytest.raises(PtxSyntaxError) as raised:
        compiler.compile_ptx(text, capability=(9, 0))
    assert len(raised.value.diagnostics) == recovery.MAX_ERRORS + 1
    assert raised.value.diagnostics[-1].message.startswith("too many errors")


def test_errors_of_all_stages_are_found_together() -> None:
    """Errors of the target, of lowering and of operands, one per line."""
    text = BODY + (
        "  wgmma.fence.sync.aligned;\n  add.f32 %f1, %f1, %rd1;\n  add.s32 %f1, %f1, %f2;\n"
        "  mov.f32 %f1, %missing;\n  ret;\n}\n"
    )
    with pytest.raises(InvalidPtxError) as raised:
        compiler.compile_ptx(text, capability=(9, 0))
    assert [one.line for one in raised.value.diagnostics] == [FIRST + at for at in range(4)]


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, "and 1 more"), (45, "and 25 more")])
def test_the_check_shows_twenty_errors_and_counts_the_rest(tmp_path, count: int, more: str) -> None:
    file = tmp_path / "wrong.ptx"
    file.write_text(BODY + "  ad.f32 %f1;\n" * count + "  ret;\n}\n")
    done = CliRunner().invoke(main, ["ptx", "check", str(file)])
    assert done.exit_code == 2
    lines = done.output.splitlines()
    assert sum("is not an instruction" in line for line in lines) == 20
    assert lines[-1] == f"{file}: not PTX"
    assert (lines[-2] == more) if more else "more" not in lines[-2]
