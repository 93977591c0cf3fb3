"""``tessera ptx check`` and ``tessera ptx compile``: exit codes and output."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.kernels import ptx_kernels
from vgpu_sim.cli.ptx.commands import command
from vgpu_sim.cli.ptx.explain import explain
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble

ROOT = Path(__file__).parents[4]
GOOD = str(ROOT / "examples" / "vecadd.ptx")
GOLDEN = ROOT / "tests" / "golden" / "ptx"
LATER, BROKEN = str(GOLDEN / "unsupported.ptx"), str(GOLDEN / "syntax.ptx")


def _run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(command, list(arguments), input=stdin)


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([GOOD], 0),
        ([LATER], 1),
        ([BROKEN], 2),
        ([GOOD, GOOD], 0),
        ([GOOD, LATER], 1),
        ([BROKEN, LATER, GOOD], 2),
        ([LATER, BROKEN], 2),
        (["nowhere.ptx", LATER], 2),
        ([str(ROOT)], 2),
    ],
)
def test_the_worst_file_decides(files: list[str], status: int) -> None:
    assert _run("check", *files).exit_code == status


def test_check_prints_the_reason() -> None:
    assert _run("check", GOOD).output == f"{GOOD}: loads (1 kernel)\n"
    lines = _run("check", LATER).output.splitlines()
    assert lines[-1] == f"{LATER}: loads with 0 of 1 kernel"
    assert f"{LATER}: variable 'elsewhere' is refused (1 reason):" in lines
    at = lines.index(
        f"{LATER}:6:31: .extern variable 'elsewhere' of another module is not supported yet"
    )
    assert lines[at + 1] == "    .extern .global .align 16 .b8 elsewhere[64];"
    assert _run("check", BROKEN).output.splitlines()[-1] == f"{BROKEN}: not PTX"


SOME_KERNELS = b""".version 8.0
.target sm_90a
.address_size 64
.visible .entry first() { ret; }
.visible .entry second() {
  pmevent 1;
  ret; }
"""


def test_check_lists_kernels_that_load_and_that_do_not() -> None:
    result = _run("check", "-", stdin=SOME_KERNELS)
    assert (result.exit_code, result.output.splitlines()) == (
        1,
        [
            "-: kernel 'second' is refused (1 reason):",
            "-:6:3: instruction 'pmevent' is not supported yet",
            "    pmevent 1;",
            "-: kernel 'first' loads",
            "-: loads with 1 of 2 kernels",
        ],
    )


@pytest.mark.parametrize(
    ("chosen", "status", "says_why"),
    [((), 0, True), (("--kernel", "first"), 0, False), (("--kernel", "second"), 1, True)],
)
def test_the_selected_kernels_refusal_is_explained(
    chosen: tuple[str, ...], status: int, says_why: bool
) -> None:
    result = _run("compile", "-", "--emit", "llvm", *chosen, stdin=SOME_KERNELS)
    assert result.exit_code == status, result.output
    reason = "-:6:3: instruction 'pmevent' is not supported yet\n    pmevent 1;\n"
    assert result.stderr == (reason if says_why else "")
    assert ("define" in result.stdout) == (status == 0)


def test_check_includes_the_backends_refusals() -> None:
    deep = ptx_kernels.nested_loops(257).encode()
    result = _run("check", "-", stdin=deep)
    assert result.exit_code == 1
    assert "more than 256 loops within each other" in result.output
    interpreted = _run("check", "-", "--backend", "interp", stdin=deep)
    assert (interpreted.exit_code, interpreted.output) == (0, "-: loads (1 kernel)\n")
    assert _run("check", "-", stdin=ptx_kernels.nested_loops(256).encode()).exit_code == 0


def test_compile_writes_the_kernels_that_it_can_and_names_the_others(tmp_path: Path) -> None:
    output = tmp_path / "some"
    result = _run("compile", "-", "--emit", "container", "-o", str(output), stdin=SOME_KERNELS)
    assert result.exit_code == 0
    assert result.stderr.startswith("-:6:3: instruction 'pmevent' is not supported yet\n")
    assert result.stderr.endswith("-: kernel 'second' is refused\n")
    module = container.decode(output.read_bytes())
    assert [function.name for function in module.functions] == ["first"]
    assert [(one.name, one.reasons[0].line) for one in module.refused] == [("second", 6)]
    assert assemble(_run("compile", "-", stdin=SOME_KERNELS).stdout) == module
    for name, status in (("first", 0), ("second", 1)):
        native = _run("compile", "-", "--emit", "llvm", "--kernel", name, stdin=SOME_KERNELS)
        assert native.exit_code == status


def _explain(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(explain, list(arguments), input=stdin)


def test_explain_shows_decisions_and_their_rules() -> None:
    result = _explain(str(ROOT / "examples" / "tiled_sgemm.ptx"), "--block", "16,16")
    assert result.exit_code == 0
    title, *rows = result.output.splitlines()
    assert title == "kernel 'tiled_sgemm'"
    messages = dict(re.split(" {2,}", row.strip(), maxsplit=1) for row in rows)
    assert messages["backend"] == "jit, for blocks of 16,16,1"
    assert messages["parameters"] == "4, 28 bytes"
    assert messages["shared memory"] == "2048 bytes"
    assert messages["wait points"] == "PTX lines 67, 80"
    lanes = int(messages["group"].split()[2])
    assert messages["block"].split() == [
        str(256 // lanes),
        *messages["block"].split()[1:3],
        "256",
        "threads",
    ]
    assert messages["why"]
    alone = _explain(str(ROOT / "examples" / "tiled_sgemm.ptx"), "--block", "15,1")
    vector = r"vector +(8|16) lanes, the line of all threads padded\n"
    assert re.search(vector, alone.output)


@pytest.mark.parametrize(
    ("kernel", "block", "shown"),
    [
        ("vecadd", "128", r"4 vectors of \d+ lanes: \d+ nodes: narrow code without passes .*"),
        ("sgemm", "16,16", r"4 vectors of \d+ lanes: \d+ nodes: narrow code without passes .*"),
        ("sgemm", "1", r"1 vector of 1 lane: \d+ nodes: lane by lane .*"),
    ],
)
def test_explain_shows_the_code_of_a_first_launch(kernel: str, block: str, shown: str) -> None:
    result = _explain(str(ROOT / "examples" / f"{kernel}.ptx"), "--block", block)
    (row,) = (line for line in result.output.splitlines() if line.lstrip().startswith("first tier"))
    assert re.fullmatch(rf" *first tier +{shown}", row)


def test_explain_states_why_a_kernel_starts_in_its_best_code() -> None:
    text = ".version 9.0\n.target sm_90\n.address_size 64\n.entry none() { ret; }"
    assert "none: 0 nodes: the best plan's code takes no longer" in _explain("-", stdin=text).output


def test_explain_names_what_is_refused() -> None:
    result = _explain("-", stdin=SOME_KERNELS)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = lines.index("kernel 'second': refused")
    assert lines[at + 1] == "-:6:3: instruction 'pmevent' is not supported yet"
    assert _explain("-", "--kernel", "first", stdin=SOME_KERNELS).exit_code == 0
    assert _explain("-", "--kernel", "second", stdin=SOME_KERNELS).exit_code == 1
    missing = _explain("-", "--kernel", "third", stdin=SOME_KERNELS)
    assert (
        missing.exit_code,
        "no kernel 'third'; kernels in it: first, second" in missing.output,
    ) == (
        2,
        True,
    )
    assert _explain(BROKEN).exit_code == 2


@pytest.mark.parametrize(
    ("stage", "shown"),
    [
        ("parse", "Instruction("),
        ("lower", ".function vecadd"),
        ("allocate", ".physical peak"),
        ("ir", "define void @entry("),
        ("passes", "define void @entry("),
        ("asm", "\t.globl\tentry"),
    ],
)
def test_every_stage_can_be_seen(stage: str, shown: str) -> None:
    result = _explain(GOOD, "--stage", stage)
    assert result.exit_code == 0
    assert shown in result.output
    assert (".physical" in result.output) == (stage == "allocate")


def test_check_for_a_device() -> None:
    assert _run("check", GOOD, "--cc", "8.0").exit_code == 0
    refused = _run("check", GOOD, "--cc", "7.5")
    assert refused.exit_code == 1
    assert "sm_80 does not run on compute capability 7.5" in refused.output
    assert "is not a compute capability" in _run("check", GOOD, "--cc", "nine").output


@pytest.mark.parametrize(
    "arguments", [("check", "--cc", "nine", GOOD), ("check",), ("chek", GOOD), ("compile",)]
)
def test_wrong_usage_has_the_status_of_an_invalid_file(arguments: tuple[str, ...]) -> None:
    assert _run(*arguments).exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("--nonsense",), ("--nonsense", "check", GOOD)])
def test_wrong_usage_of_the_group_has_it_too(arguments: tuple[str, ...]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert "Usage: ptx" in result.stderr


def test_without_a_verb_there_is_help() -> None:
    assert "Check and compile PTX." in _run().stderr


@pytest.mark.parametrize("option", [("--block", "8"), ("--kernel", "vecadd")])
@pytest.mark.parametrize("emit", ["isa", "container"])
def test_what_one_kernel_needs_is_refused_where_all_are_written(
    option: tuple[str, str], emit: str
) -> None:
    result = _run("compile", GOOD, "--emit", emit, *option)
    assert result.exit_code == 2
    assert f"--kernel and --block have no effect on --emit {emit}" in result.output


def test_check_reads_standard_input() -> None:
    assert _run("check", "-", stdin=Path(GOOD).read_bytes()).output == "-: loads (1 kernel)\n"


def test_compile_to_text_that_assembles_to_the_same_module() -> None:
    module = compile_ptx(Path(GOOD).read_bytes(), capability=(8, 0))
    result = _run("compile", GOOD)
    assert result.exit_code == 0
    assert assemble(result.stdout) == module


def test_compile_to_a_container(tmp_path: Path) -> None:
    output = tmp_path / "vecadd.bin"
    result = _run("compile", GOOD, "--emit", "container", "-o", str(output))
    assert (result.exit_code, result.output) == (0, "")
    module = compile_ptx(Path(GOOD).read_bytes(), capability=(8, 0))
    assert container.decode(output.read_bytes()) == module


@pytest.mark.parametrize(("file", "status"), [(LATER, 1), (BROKEN, 2)])
def test_compile_writes_nothing_when_it_refuses(file: str, status: int, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = _run("compile", file, "-o", str(output))
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.startswith(f"{file}:")
    assert not output.exists()


def test_compile_of_nothing() -> None:
    result = _run("compile", "nowhere.ptx")
    assert result.exit_code == 2
    assert result.stderr == "Error: nowhere.ptx: No such file or directory\n"


def test_compile_to_native_code(tmp_path: Path) -> None:
    llvm = _run("compile", GOOD, "--emit", "llvm", "--block", "64")
    assert llvm.exit_code == 0
    assert "define" in llvm.stdout
    assert "fadd <" in llvm.stdout
    output = tmp_path / "vecadd.o"
    assert _run("compile", GOOD, "--emit", "object", "-o", str(output)).exit_code == 0
    assert output.read_bytes()[:4] == b"\x7fELF"


def test_block_shapes_are_used_and_checked(tmp_path: Path) -> None:
    texts = {
        block: _run("compile", GOOD, "--emit", "llvm", "--block", block).stdout
        for block in ("256", "12,16", "8,8,4")
    }
    assert len(set(texts.values())) == 3
    assert _run("compile", GOOD, "--emit", "llvm").stdout == texts["256"]
    assert "is not a block" in _run("compile", GOOD, "--emit", "llvm", "--block", "x").output
    assert _run("compile", GOOD, "--emit", "llvm", "--block", "1024,2").exit_code == 1
    required = tmp_path / "required.ptx"
    required.write_text(Path(GOOD).read_text().replace("\n{", "\n.reqntid 12, 16\n{", 1))
    implied = _run("compile", str(required), "--emit", "llvm")
    assert implied.stdout == texts["12,16"]
    assert _run("compile", str(required), "--emit", "llvm", "--block", "64").exit_code == 2


def test_one_of_several_kernels(tmp_path: Path) -> None:
    both = tmp_path / "both.ptx"
    text = Path(GOOD).read_text()
    both.write_text(text + text[text.index(".visible") :].replace("vecadd", "second"))
    unnamed = _run("compile", str(both), "--emit", "llvm")
    assert unnamed.exit_code == 2
    assert unnamed.stderr.endswith("--kernel is needed; kernels in it: vecadd, second\n")
    assert _run("compile", str(both), "--emit", "llvm", "--kernel", "second").exit_code == 0
    missing = _run("compile", str(both), "--emit", "llvm", "--kernel", "third")
    assert missing.stderr.endswith("no kernel 'third'; kernels in it: vecadd, second\n")
    assert _run("compile", str(both)).exit_code == 0
