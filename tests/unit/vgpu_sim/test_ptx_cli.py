"""``tessera ptx check`` and ``tessera ptx compile``: exit codes, what is written where."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vgpu_sim.cli.ptx import command
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble

ROOT = Path(__file__).parents[3]
GOOD = str(ROOT / "examples" / "vecadd.ptx")
GOLDEN = ROOT / "tests" / "golden" / "ptx"
LATER, BROKEN = str(GOLDEN / "unsupported.ptx"), str(GOLDEN / "syntax.ptx")


def _run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(command, list(arguments), input=stdin)


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([GOOD], 0),
        ([LATER], 2),
        ([BROKEN], 1),
        ([GOOD, GOOD], 0),
        ([GOOD, LATER], 2),
        ([BROKEN, LATER, GOOD], 1),
        ([LATER, BROKEN], 1),
        (["nowhere.ptx", LATER], 1),
        ([str(ROOT)], 1),
    ],
)
def test_the_worst_file_decides(files: list[str], status: int) -> None:
    assert _run("check", *files).exit_code == status


def test_check_says_why() -> None:
    assert _run("check", GOOD).output == f"{GOOD}: loads (1 kernel)\n"
    lines = _run("check", LATER).output.splitlines()
    assert lines[-1] == f"{LATER}: valid as far as we know, not supported yet (18 reasons)"
    assert (
        lines[0]
        == f"{LATER}:6:31: a shared variable of another module, 'elsewhere', is not supported yet"
    )
    assert lines[1] == "    .extern .shared .align 16 .b8 elsewhere[64];"
    assert _run("check", BROKEN).output.splitlines()[-1] == f"{BROKEN}: not PTX"


def test_check_for_a_device() -> None:
    assert _run("check", GOOD, "--cc", "8.0").exit_code == 0
    refused = _run("check", GOOD, "--cc", "7.5")
    assert refused.exit_code == 2
    assert "sm_80 does not run on compute capability 7.5" in refused.output
    assert "is not a compute capability" in _run("check", GOOD, "--cc", "nine").output


@pytest.mark.parametrize(
    "arguments", [("check", "--cc", "nine", GOOD), ("check",), ("chek", GOOD), ("compile",)]
)
def test_wrong_usage_is_no_verdict(arguments: tuple[str, ...]) -> None:
    assert _run(*arguments).exit_code == 64


@pytest.mark.parametrize("arguments", [(), ("--nonsense",), ("--nonsense", "check", GOOD)])
def test_wrong_usage_of_the_group_is_no_verdict_either(arguments: tuple[str, ...]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 64
    assert "Usage: ptx" in result.stderr


def test_without_a_verb_there_is_help() -> None:
    assert "Check and compile PTX." in _run().stderr


@pytest.mark.parametrize("option", [("--block", "8"), ("--kernel", "vecadd")])
@pytest.mark.parametrize("emit", ["isa", "container"])
def test_what_one_kernel_needs_is_refused_where_all_are_written(
    option: tuple[str, str], emit: str
) -> None:
    result = _run("compile", GOOD, "--emit", emit, *option)
    assert result.exit_code == 64
    assert f"--kernel and --block mean nothing to --emit {emit}" in result.output


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


@pytest.mark.parametrize(("file", "status"), [(LATER, 2), (BROKEN, 1)])
def test_compile_writes_nothing_when_it_refuses(file: str, status: int, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = _run("compile", file, "-o", str(output))
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.startswith(f"{file}:")
    assert not output.exists()


def test_compile_of_nothing() -> None:
    result = _run("compile", "nowhere.ptx")
    assert result.exit_code == 1
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
    assert _run("compile", str(required), "--emit", "llvm", "--block", "64").exit_code == 1


def test_one_of_several_kernels(tmp_path: Path) -> None:
    both = tmp_path / "both.ptx"
    text = Path(GOOD).read_text()
    both.write_text(text + text[text.index(".visible") :].replace("vecadd", "second"))
    unnamed = _run("compile", str(both), "--emit", "llvm")
    assert unnamed.exit_code == 1
    assert unnamed.stderr.endswith("--kernel is needed; it has vecadd, second\n")
    assert _run("compile", str(both), "--emit", "llvm", "--kernel", "second").exit_code == 0
    missing = _run("compile", str(both), "--emit", "llvm", "--kernel", "third")
    assert missing.stderr.endswith("no kernel 'third'; it has vecadd, second\n")
    assert _run("compile", str(both)).exit_code == 0
