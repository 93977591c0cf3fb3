"""Drawings of the command line: files that stand alone, and text on a terminal only."""

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from vgpu_sim.cli import pictures
from vgpu_sim.cli.main import main

PTX = Path(__file__).parents[4] / "examples" / "saxpy.ptx"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: x}
spec: {containers: [{name: c, image: i, resources: {limits: {rdma.tessera.dev/hca: 1}}}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: x}
spec: {containers: [{name: c, image: i, resources: {limits: {rdma.tessera.dev/hca: 1}}}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: x}
---
apiVersion: rdma.tessera.dev/v1alpha1
kind: RDMANetworkPolicy
metadata: {name: closed, namespace: x}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: []}
"""
GEMM = ("gemm", "-m", "16", "-n", "64", "-k", "64")
PLAN = ("mig", "plan", "--board", "h100-80gb")


def tessera(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="tessera")


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "pods.yaml"
    file.write_text(PODS)
    return str(file)


GPUS = """{"items": [{"metadata": {"name": "g0"}, "spec": {"pool": "p", "board": "h100-80gb"},
 "status": {"slices": [
  {"profile": "1g.10gb", "start": 2, "holders": [{"namespace": "a", "name": "x"}]},
  {"profile": "1g.10gb", "start": 5, "holders": [{"namespace": "a", "name": "y"}]}]}}]}"""
COMMANDS = {
    "predict": ("perf", "predict", *GEMM, "--board", "h200"),
    "compare": ("perf", "compare", "--boards", "h200,b200", *GEMM),
    "model": ("perf", "model", "llama-2-7b", "--board", "h200"),
    "image": ("perf", "model", "sdxl", "--board", "h200"),
    "plan": (*PLAN, "--have", "3g.40gb@4", "--want", "2g.20gb"),
    "relayout": (*PLAN, "--from", "3g.40gb@4,1g.10gb@0", "--to", "4g.40gb"),
    "ptx": ("ptx", "explain", str(PTX)),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_files_stand_alone(name: str, tmp_path: Path) -> None:
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    done = tessera(*COMMANDS[name], "--svg", str(svg), "--html", str(html))
    assert done.exit_code == 0, done.output
    root = ElementTree.fromstring(svg.read_text())
    assert len(list(root.iter())) > 10
    text = html.read_text()
    assert "Content-Security-Policy" in text
    assert not re.search(r"<(script|img|link|iframe)\b|\bsrc=|\bstyle=", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_text_is_drawn_on_request_only(name: str) -> None:
    plain, drawn = tessera(*COMMANDS[name]), tessera(*COMMANDS[name], "--draw")
    assert plain.exit_code == drawn.exit_code == 0
    assert len(drawn.output) > len(plain.output)
    assert "\x1b" not in drawn.output  # the runner's output is no terminal


def test_a_drawing_on_standard_output_is_alone_there() -> None:
    done = tessera(*COMMANDS["plan"], "--svg", "-")
    assert done.exit_code == 0
    assert ElementTree.fromstring(done.stdout).tag.endswith("}svg")
    both = tessera(*COMMANDS["plan"], "--svg", "-", "--html", "-")
    assert both.exit_code == 2
    assert "only one of --svg and --html" in both.stderr


def test_a_file_in_no_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    done = tessera(*COMMANDS["plan"], "--svg", str(tmp_path / "none" / "a.svg"))
    assert done.exit_code == 2
    assert "is not a directory" in done.stderr
    assert not done.stdout


def test_before_and_after_have_the_slices_of_the_plan(tmp_path: Path) -> None:
    svg = tmp_path / "a.svg"
    tessera(*COMMANDS["relayout"], "--svg", str(svg))
    titles = [one.text for one in ElementTree.fromstring(svg.read_text()).iter() if one.text]
    joined = "\n".join(titles)
    before, after = (joined.index(f"\n{word}\n") for word in ("before", "after"))
    assert (
        before
        < joined.index("1g.10gb@0 (instance 7), withdrawn")
        < after
        < joined.index("4g.40gb@0 (instance 1), requested")
    )


@pytest.fixture
def gpus(tmp_path: Path) -> str:
    file = tmp_path / "gpus.json"
    file.write_text(GPUS)
    return str(file)


def drawn_after(done: Result) -> str:
    """Return the row of the drawing that begins with a GPU's name and "after"."""
    assert done.exit_code == 0, done.output
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("g0 after")]
    return line


def test_advice_draws_the_slice_that_it_makes_room_for(gpus: str) -> None:
    done = tessera("mig", "advise", "-f", gpus, "--want", "4g.40gb", "--draw")
    line = drawn_after(done)
    assert re.search(r"\[\?+4g\.40gb\?+\]", line)  # the requested slice
    assert re.search(r"\[\?+1g", line)  # the slice that moved


def test_a_layout_is_drawn_on_each_gpu_that_it_changes(gpus: str) -> None:
    done = tessera("mig", "advise", "-f", gpus, "--layout", "3g.40gb,4x1g.10gb", "--draw")
    line = drawn_after(done)
    assert "3g.40gb" in line
    assert len(re.findall(r"\[\?", line)) == 4  # one of the five slices stays
    assert "1 slice to destroy, 4 to create, 1 pod in the way" in done.stdout
    same = tessera("mig", "advise", "-f", gpus, "--layout", "1g.10gb@2,1g.10gb@5", "--draw")
    assert "g0 after" not in same.stdout
    assert done.stdout.startswith("1 GPU, 1 divided\n")


@pytest.mark.parametrize("columns", [40, 50])
@pytest.mark.parametrize("name", ["predict", "plan"])
def test_headings_and_drawings_fit_a_narrow_terminal(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = tessera(*COMMANDS[name], "--draw").stdout.splitlines()
    wide = [one for one in lines if len(one) > columns]
    # Numbers are in columns of fixed width, which no terminal is too narrow to wrap.
    assert not [one for one in wide if not re.search(r" us +-?[\d.]+ %|^Instance|^\d+g\.", one)]


def test_a_denied_flow_fits_a_narrow_terminal(
    manifest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = ("--from", "x/a", "--to", "x/b", "--verb", "write", "-f", manifest, "--draw")
    plain = tessera("rdma", "explain", *ends[:-1]).stdout
    monkeypatch.setenv("COLUMNS", "30")
    drawn = tessera("rdma", "explain", *ends).stdout.removeprefix(plain).splitlines()
    assert drawn[0] == "x/a"
    assert drawn[-1] == " ─✕ x/b"
    assert " ─✕ ingress denies" in drawn
    assert max(map(len, drawn)) <= 30


@pytest.mark.parametrize(("verb", "status"), [("write", 1)])
def test_a_denied_flow_is_drawn_with_its_policy(
    manifest: str, tmp_path: Path, verb: str, status: int
) -> None:
    svg = tmp_path / "a.svg"
    ends = ("--from", "x/a", "--to", "x/b", "--verb", verb, "-f", manifest)
    done = tessera("rdma", "explain", *ends, "--svg", str(svg), "--draw")
    assert done.exit_code == status
    assert "ingress denies" in done.stdout
    text = svg.read_text()
    assert "isolated by x/closed" in text
    assert text.count("wire deny") == 1


def test_the_listing_has_each_instruction_beside_its_line() -> None:
    done = tessera("ptx", "explain", str(PTX), "--draw")
    rows = [
        line.split(maxsplit=1) for line in done.stdout.splitlines() if re.match(r" +\d+ ", line)
    ]
    numbers = [int(number) for number, _ in rows]
    assert all(a < b for a, b in itertools.pairwise(numbers))
    (fma,) = [text for _, text in rows if text.startswith("fma")]
    assert "FMA.RN.F32" in fma


LOCATED = """.version 7.0
.target sm_80
.address_size 64
.file 1 "/nowhere/../etc/kernel.cu"
.visible .entry k(.param .u64 p) {
  .reg .b64 %rd<2>;
  .loc 1 2 3
  ld.param.u64 %rd1, [p];
  .loc 1 3 3
  st.global.u64 [%rd1], %rd1;
  .loc 1 99 3
  ret;
}
"""


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_source_that_the_user_passes_is_beside_its_ptx(tmp_path: Path, is_folder: bool) -> None:
    ptx, source = tmp_path / "kernel.ptx", tmp_path / "kernel.cu"
    ptx.write_text(LOCATED)
    source.write_text("one\n  two <b>;\n\x1b[2Jthree\n")
    passed = ("--source", str(tmp_path if is_folder else source))
    svg = tmp_path / "a.svg"
    done = tessera("ptx", "explain", str(ptx), "--draw", "--svg", str(svg), *passed)
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line.startswith("kernel.cu:")]
    assert lines == ["kernel.cu:2  two <b>;", "kernel.cu:3  \ufffd[2Jthree"]
    texts = [one.text for one in ElementTree.fromstring(svg.read_text()).iter()]
    assert texts.count("two <b>;") == 1


def test_no_source_is_read_that_the_user_does_not_pass(tmp_path: Path) -> None:
    ptx, source = tmp_path / "kernel.ptx", tmp_path / "kernel.cu"
    source.write_text("one\ntwo\n")
    ptx.write_text(LOCATED.replace("/nowhere/../etc/kernel.cu", str(source)))
    folder = tmp_path / "other"
    folder.mkdir()
    done = tessera("ptx", "explain", str(ptx), "--draw", "--source", str(folder))
    assert done.exit_code == 0
    assert "two" not in done.stdout
    absent = tessera("ptx", "explain", str(ptx), "--source", str(tmp_path / "absent"))
    assert "absent" in absent.stderr
    assert absent.exit_code == 2


def test_listings_need_a_file() -> None:
    done = CliRunner().invoke(
        main, ["ptx", "explain", "-", "--svg", "-"], input=PTX.read_text(), prog_name="tessera"
    )
    assert done.exit_code == 2
    assert "standard input is read once" in done.stderr


def test_the_default_draws_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    request = pictures.Request()
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda found=is_terminal: found)
        assert request.wants_text is is_terminal
    request.draw = False
    assert not request.wants_text
