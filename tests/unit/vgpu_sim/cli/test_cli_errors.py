"""All verbs report errors in one form, with the exit statuses of docs/command-line.md."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from vgpu_sim.cli.main import main
from vgpu_sim.cli.manual import walk

# They take the options of another program, and have its messages and statuses.
OTHERS = {"cc", "ptxas"}
COMMANDS = {
    path[1:]: context.command
    for path, context in walk(main, "tessera")
    if not OTHERS.intersection(path)
}
LEAVES = [path for path, one in COMMANDS.items() if not isinstance(one, click.Group)]
BOARDS = [
    (path, option)
    for path, one in COMMANDS.items()
    for parameter in one.params
    for option in parameter.opts
    if option in ("--board", "--boards", "--donor")
]
AMBIGUOUS = "error: no board 'h100'; did you mean h100-80gb or h100-nvl?\n"
PAGE = Path(__file__).parents[4] / "docs" / "command-line.md"


def tessera(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, arguments, prog_name="tessera", input=text)


def test_the_walk_finds_the_verbs() -> None:
    assert {("perf", "predict", "gemm"), ("mig", "plan"), ("run",)} <= set(LEAVES)
    assert len(BOARDS) > 20


@pytest.mark.parametrize("path", COMMANDS, ids="-".join)
def test_an_unknown_option_is_2_and_named(path: tuple[str, ...]) -> None:
    between = ("--boards", "h200") if path[:2] == ("perf", "compare") and path[2:] else ()
    done = tessera(*path[:2], *between, *path[2:], "--frobnicate")
    assert done.exit_code == 2, done.output
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: no option --frobnicate")
    assert rest == [f"See '{' '.join(('tessera', *path))} --help' for usage."]


@pytest.mark.parametrize(("path", "option"), BOARDS, ids=lambda one: "".join(one)[-40:])
def test_an_ambiguous_board_is_2_and_both_are_suggested(path: tuple[str, ...], option: str) -> None:
    given = ["llama-2-7b"] if path[-1] == "model" else []
    done = tessera(*path, option, "h100", *given, *(["gemm"] if path[-1] == "compare" else []))
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(AMBIGUOUS)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (("perff",), "error: no command 'perff'; did you mean perf?"),
        (("mig", "plam"), "error: no command 'plam'; did you mean plan?"),
        (("zzz",), "error: no command 'zzz'"),
        (("mig", "plan", "--bord", "a30"), "error: no option --bord; did you mean --board?"),
        (("mig", "plan"), "error: missing option '--board'"),
        (("perf", "predict", "gemm", "-m", "0"), "error: invalid value for '-m'"),
        (("libdir", "more"), "error: got unexpected extra argument (more)"),
    ],
)
def test_wrong_usage_is_2_and_names_what_was_meant(typed: tuple[str, ...], line: str) -> None:
    done = tessera(*typed)
    assert done.exit_code == 2
    assert done.stderr.startswith(line)


FILES = {
    "ptx check": ("ptx", "check"),
    "ptx compile": ("ptx", "compile"),
    "ptx explain": ("ptx", "explain"),
    "ptx run": ("ptx", "run"),
    "isa asm": ("isa", "asm", "-o", "/dev/null"),
    "isa disasm": ("isa", "disasm"),
    "rdma check": ("rdma", "check", "-f"),
    "rdma explain": ("rdma", "explain", "--from", "a/x", "--to", "b/y", "--verb", "read", "-f"),
    "mig advise": ("mig", "advise", "-f"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_2_and_one_line(name: str) -> None:
    done = tessera(*FILES[name], "nosuch")
    assert done.exit_code == 2
    assert done.stderr == "error: nosuch: No such file or directory\n"


@pytest.mark.parametrize("name", FILES)
def test_an_invalid_file_is_2_and_an_error(name: str, tmp_path: Path) -> None:
    file = tmp_path / "invalid"
    file.write_text("- {")
    done = tessera(*FILES[name], str(file))
    assert done.exit_code == 2
    said = done.output if name == "ptx check" else done.stderr  # a check prints its verdict
    assert str(file) in said
    assert not re.search(r"^Error:|^tessera ", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "error: standard input is empty; `tessera mig advise` expects the output of"),
        ("{", "error: standard input is not JSON: "),
        ('{"kind": "PodList"}', "error: standard input: items[0]: "),
    ],
)
def test_advise_states_what_it_expects(text: str, said: str) -> None:
    done = tessera("mig", "advise", text=text)
    assert done.exit_code == 2
    assert done.stderr.startswith(said)
    assert "`kubectl get gpus -o json`" in done.stderr


POLICY = "apiVersion: rdma.tessera.dev/v1alpha1\nkind: RDMANetworkPolicy\nmetadata: {name: p}\n"


@pytest.mark.parametrize(("verb", "status"), [("check", 1), ("explain", 2)])
def test_a_manifest_is_named_once(verb: str, status: int, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"{POLICY}spec: {{}}\n")
    done = tessera(*FILES[f"rdma {verb}"], str(file))
    assert done.exit_code == status
    assert done.output.count("bad.yaml: document 1") == 1
    assert "spec.podSelector: missing" in done.output


def test_control_characters_of_a_name_are_not_printed() -> None:
    done = tessera("ptx", "check", "a\x1b[2Jb")
    assert done.stderr == "error: a\N{REPLACEMENT CHARACTER}[2Jb: No such file or directory\n"


def test_the_page_of_exit_statuses_is_linked_and_has_every_exception() -> None:
    assert "Exit status" in tessera("--help").stdout
    assert "docs/command-line.md" in tessera("--help").stdout
    rows = re.findall(r"^\| `tessera ([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {*OTHERS, "run", "perf run", "ptx run", "smi", "fault"} <= set(rows)
    known = {" ".join(path) for path, _ in ((one[1:], 0) for one, _ in walk(main, "tessera"))}
    assert set(rows) <= known
