"""`tessera perf`: its output as text and as JSON, and its refusals."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main
from vgpu_sim.cli.perf import run_report
from vgpu_sim.hal.observe.modelled_report import ModelledCopies, ModelledSummary
from vgpu_sim.perf import plots
from vgpu_sim.perf.errors import NoData
from vgpu_sim.perf.kernels import chip_of
from vgpu_sim.perf.validation import families

GEMM = ["gemm", "--board", "h200", "--dtype", "bf16", "-m", "4096", "-n", "4096", "-k", "4096"]


def perf(*arguments: str):
    return CliRunner().invoke(main, ["perf", *arguments], prog_name="tessera")


def test_the_stack_that_is_printed_adds_to_the_time() -> None:
    done = perf("predict", *GEMM)
    assert done.exit_code == 0, done.output
    total = float(re.search(r"^([\d.]+) us ±", done.output, re.MULTILINE)[1])
    parts = re.findall(r"^  \S.*? +(-?[\d.]+) us +-?[\d.]+ %$", done.output, re.MULTILINE)
    assert len(parts) == 10
    assert sum(map(float, parts)) == pytest.approx(total, rel=2e-3)
    assert "modelled" in done.output
    assert "fitted to 775 rows of aiconfigurator-core 0.12.0" in done.output


def test_json_has_the_same_content() -> None:
    row = json.loads(perf("predict", *GEMM, "--json").output)
    assert row["us"] == pytest.approx(sum(row["stack_us"].values()))
    low, high = row["us_90_percent"]
    assert low < row["us"] < high
    assert row["modelled"] is True
    assert row["rates"]["Tflop/s"] == pytest.approx(2 * 4096**3 / row["us"] / 1e6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--board", "a100-80gb", "--dtype", "fp8"], "error: a100-80gb's tensor cores do not have"),
        (["--board", "h20"], "error: no board 'h20'; did you mean h200?"),
        (["--board", "h200", "-m", "0"], "error: invalid value for '-m'"),
    ],
)
def test_bad_input_is_named(arguments: list[str], said: str) -> None:
    done = perf("predict", "gemm", *("-m", "1", "-n", "1", "-k", "1"), *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    "operation",
    [
        ["gemm", "-m", "1000000", "-n", "1000000", "-k", "1000000"],
        ["gemm", "-m", "99999999999999", "-n", "99999999999", "-k", "999999999"],
        ["copy", "--bytes", "1000000000000"],
        ["copy", "--direction", "h2d", "--bytes", "1000000000000"],
        ["elementwise", "--rows", "1000000", "--columns", "1000000"],
        ["norm", "--rows", "1000000", "--columns", "1000000"],
        ["attention", "--batch", "64", "--query", "1", "--context", "1000000", "--heads", "32"],
        [
            *("moe", "--tokens", "1", "--hidden", "8192", "--inner", "32768"),
            *("--experts", "256", "--topk", "2"),
        ],
    ],
    ids=lambda operation: operation[0],
)
def test_operands_larger_than_the_memory_are_refused(operation: list[str]) -> None:
    done = perf("predict", *operation, "--board", "h200")
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"error: operands and result take \S+ GB; h200 has 141\n", done.stderr)


def test_an_invalid_load_is_named_as_typed() -> None:
    sizes = ["--tokens", "1", "--hidden", "64", "--inner", "64", "--experts", "8", "--topk", "2"]
    done = perf("predict", "moe", "--board", "h200", *sizes, "--load", "foo")
    assert done.exit_code == 2
    assert done.stderr == "error: load 'foo' is neither 'balanced' nor 'power_law_EXPONENT'\n"


HUGE = str(10**30)
MOE = ["moe", "--tokens", "8", "--hidden", "64", "--inner", "64", "--topk", "1"]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (["allreduce", "--gpus", "8", "--bytes", HUGE], "is not a size such as 4Gi"),
        (["allreduce", "--gpus", "8", "--bytes", "900E"], "take 9e+11 GB; h200 has 141"),
        (["alltoall", "--gpus", "2", "--bytes", "142G"], "take 142 GB; h200 has 141"),
        (["allreduce", "--gpus", HUGE, "--bytes", "1"], "'--gpus': 1000"),
        (["allreduce", "--gpus", "9", "--bytes", "1"], "must have 2 to 8 GPUs"),
        (["attention", "--heads", "1", "--context", "8", "--window", HUGE], "'--window': 1000"),
        (["attention", "--heads", "8", "--kv-heads", "3", "--context", "8"], "a multiple of kv"),
        (["elementwise", "--rows", "1" + 400 * "0", "--columns", "1"], "'--rows': 1000"),
        (["elementwise", "--rows", "1", "--columns", "1", "--read", "nan"], "bytes read of an"),
        (["elementwise", "--rows", "1", "--columns", "1", "--written", "inf"], "inf GB; h200"),
        (
            ["copy", "--bytes", "1GiB"],
            "'1GiB' is not a size such as 4Gi, 4G, 512Mi or a number of bytes",
        ),
        (["copy", "--bytes", "0"], "at least one byte"),
        ([*MOE, "--experts", HUGE], "'--experts': 1000"),
        ([*MOE, "--experts", "65537"], "experts must be at most 65536"),
        ([*MOE, "--experts", "8", "--load", "power_law_0"], "must be above 0 and at most 10"),
        ([*MOE, "--experts", "8", "--load", "power_law_nan"], "must be above 0 and at most 10"),
        ([*MOE, "--experts", "8", "--load", "power_law_1e3"], "must be above 0 and at most 10"),
        ([*MOE, "--experts", "8", "--load", "power_law_"], "neither 'balanced' nor 'power_law_"),
    ],
    ids=lambda value: "_".join(value)[:40] if isinstance(value, list) else "",
)
def test_impossible_numbers_are_refused_in_one_line(operation: list[str], said: str) -> None:
    done = perf("predict", *operation, "--board", "h200")
    assert (done.exit_code, done.stdout) == (2, "")
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr


def test_sizes_are_written_as_kubernetes_writes_them() -> None:
    said, counted = (
        json.loads(perf("predict", "copy", "--board", "h200", "--json", "--bytes", size).output)
        for size in ("64Mi", str(64 << 20))
    )
    assert said == counted


def test_a_power_law_of_exponent_one_is_between_its_neighbours() -> None:
    below, one, above = (
        json.loads(
            perf(
                *("predict", "moe", "--board", "h200", "--tokens", "4096", "--hidden", "4096"),
                *("--inner", "2048", "--experts", "64", "--topk", "4", "--ep", "8", "--json"),
                *("--mechanistic", "--load", f"power_law_{exponent}"),
            ).output
        )["us"]
        for exponent in ("0.99", "1", "1.01")
    )
    assert min(below, above) <= one <= max(below, above)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model", "sdxl", "--tp", "2"], "sdxl does not take --tp"),
        (["model", "sdxl", "--in", "7", "--out", "9"], "sdxl does not take --in or --out"),
        (["model", "llama-3-8b", "--side", "64"], "llama-3-8b does not take --side"),
        (["model", "llama-9", "--side", "64"], "no model 'llama-9'; did you mean"),
        (["model", "llama-3-8b", "--batch", HUGE], "'--batch': 1000"),
        (["model", "llama-3-8b", "--in", str(10**15)], "it does not fit into one node of 8"),
        (["model", "llama-3-8b", "--out", str(10**15)], "it does not fit into one node of 8"),
        (["model", "sdxl", "--batch", str(10**15)], "sdxl needs"),
        (["validate", "--unseen", "--worst"], "--unseen cannot be combined with --worst"),
        (["validate", "--unseen", "--family", "gemm"], "--unseen cannot be combined with --family"),
        (
            ["fit", "--unseen", "--residual", "--into", "/proc/1"],
            "cannot be combined with --residual",
        ),
    ],
    ids=lambda value: "_".join(value)[:40] if isinstance(value, list) else "",
)
def test_an_option_without_effect_is_named(arguments: list[str], said: str) -> None:
    done = perf(*arguments, "--board", "h200")
    assert (done.exit_code, done.stdout) == (2, "")
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr


def test_a_report_that_cannot_be_written_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    made = tmp_path / "made"
    nowhere = tmp_path / "none" / "report.json"
    done = perf("run", "--board", "h100-80gb", "--json", str(nowhere), "--", "touch", str(made))
    assert (done.exit_code, made.exists()) == (2, False)
    assert f"{nowhere.parent} is not a directory" in done.stderr


def test_contexts_that_share_a_link_are_reported_as_timed_alone() -> None:
    copies = (ModelledCopies("HtoD", 1, 1 << 20, 19.0),)
    one = ModelledSummary(copies, 19.0, 0.0, 0)
    chip = chip_of("h100-80gb", 132, (1, 1))
    for count, said in ((1, False), (2, True)):
        report = run_report.Report(chip, [one] * count, [], [])
        lines = "\n".join(run_report.lines(report, grouped=False))
        assert (f"{count} contexts copied over links, each as if alone" in lines) == said


def test_validate_refuses_an_unknown_board() -> None:
    done = perf("validate", "--board", "h20")
    assert done.exit_code == 2
    assert "no board 'h20'" in done.stderr


def refuse_to_validate(*_: object) -> None:
    raise NoData("no measurements")


def test_validate_without_measurements_prints_no_empty_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(families, "validate", refuse_to_validate)
    done = perf("validate", "--board", "h200")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "error: no measurements\n")


def test_a_page_that_cannot_be_made_is_refused_before_validation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(families, "validate", refuse_to_validate)
    nowhere = perf("validate", "--html", str(tmp_path / "none" / "page.html"))
    assert (nowhere.exit_code, "is not a directory" in nowhere.stderr) == (2, True)
    monkeypatch.setattr(plots.util, "find_spec", lambda name: None)
    done = perf("validate", "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 2
    assert done.stderr == (
        "error: no plots: pip install '.[perf]' in the checkout, or matplotlib\n"
    )


OPERATIONS = {
    "attention": ["--context", "64", "--heads", "8", "--kv-heads", "2"],
    "moe": [
        "--tokens",
        "8",
        "--hidden",
        "4096",
        "--inner",
        "1024",
        "--experts",
        "8",
        "--topk",
        "2",
    ],
    "allreduce": ["--gpus", "4", "--bytes", "1048576"],
    "elementwise": ["--rows", "128", "--columns", "4096"],
    "norm": ["--rows", "128", "--columns", "4096"],
    "copy": ["--direction", "h2d", "--bytes", "1048576"],
    "gemm": ["-m", "8", "-n", "512", "-k", "512"],
}


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_is_predicted_and_compared(op: str) -> None:
    alone = json.loads(perf("predict", op, "--board", "h200", *OPERATIONS[op], "--json").output)
    assert alone["op"] == op
    both = perf("compare", "--boards", "h200,b200", op, *OPERATIONS[op], "--json")
    assert both.exit_code == 0, both.output
    rows = json.loads(both.output)
    assert [row["board"] for row in rows] == ["h200", "b200"]
    assert rows[0] == alone
    table = perf("compare", "--boards", "h200,b200", op, *OPERATIONS[op]).output
    assert re.search(rf"^time \(us\) +{alone['us']:.2f} +{rows[1]['us']:.2f}$", table, re.MULTILINE)


def test_a_model_is_reported_by_operator() -> None:
    question = ["llama-2-70b", "--board", "h100-80gb", "--tp", "4", "--batch", "16"]
    done = perf("model", *question)
    assert done.exit_code == 0, done.output
    row = json.loads(perf("model", *question, "--json").output)
    assert f"{row['tpot_ms']:.2f} ms" in done.output
    assert f"{row['ttft_ms']:.2f} ms" in done.output
    assert re.search(r"gate and up +80 x +[\d.]+ us", done.output)
    beside = perf("compare", "--boards", "h100-80gb,h200", "model", "llama-3-8b").output
    assert re.search(r"^TPOT \(ms\) +[\d.]+ +[\d.]+$", beside, re.MULTILINE)


def test_a_model_that_does_not_fit_is_named() -> None:
    done = perf("model", "llama-2-70b", "--board", "h100-80gb")
    assert done.exit_code == 2
    assert "error: llama-2-70b in bf16 needs 140.6 GB a rank with tp 1" in done.stderr


def test_the_residual_is_a_cause_that_can_be_left_out() -> None:
    corrected = json.loads(perf("predict", *GEMM, "--json").output)
    alone = json.loads(perf("predict", *GEMM, "--mechanistic", "--json").output)
    correction_us = corrected["stack_us"].pop("residual (learned)")
    assert corrected["stack_us"] == alone["stack_us"]
    assert alone["us"] == pytest.approx(corrected["us"] - correction_us)
    assert alone["rates"]["Tflop/s"] == pytest.approx(2 * 4096**3 / alone["us"] / 1e6)
    unseen = ["gemm", "--board", "a30", *GEMM[3:], "--json"]
    assert "residual (learned)" not in json.loads(perf("predict", *unseen).output)["stack_us"]
    question = ["model", "llama-3-8b", "--board", "h200", "--json"]
    whole, bare = (perf(*question, *more).output for more in ([], ["--mechanistic"]))
    assert "residual (learned)" in whole
    assert "residual (learned)" not in bare


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mla", "--context", "4096", "--query", "1", "--heads", "16"), "on 4096, 16 heads"),
        (("softmax", "--rows", "64", "--columns", "4096"), "softmax of 64 rows"),
        (("quantize", "--rows", "64", "--columns", "4096"), "quantize of 64 rows"),
        (("embedding", "--rows", "64", "--columns", "4096"), "embedding was not measured"),
        (("sampling", "--rows", "64", "--columns", "32000"), "sampling was not measured"),
        (("allgather", "--gpus", "8", "--bytes", "4096"), "all_gather of 4096 bytes among 8"),
        (("reducescatter", "--gpus", "8", "--bytes", "4096"), "reduce_scatter of 4096 bytes"),
        (("alltoall", "--gpus", "8", "--bytes", "4096"), "alltoall of 4096 bytes"),
    ],
)
def test_each_operation_has_a_command_of_its_own(arguments: tuple[str, ...], said: str) -> None:
    found = perf("predict", arguments[0], "--board", "h200", *arguments[1:])
    assert found.exit_code == 0, found.output
    assert said in found.output
    assert "(modelled)" in found.output


def test_fp8_on_a_board_without_it_is_refused_by_name() -> None:
    found = perf("predict", "gemm", "--board", "a100-80gb", "--dtype", "fp8", *GEMM[5:])
    assert found.exit_code == 2
    assert "a100-80gb's tensor cores do not have fp8" in found.output


def test_a_denoiser_is_reported_by_kind_of_operator() -> None:
    found = perf("model", "sdxl", "--board", "h200", "--steps", "30", "--no-cuda-graphs")
    assert found.exit_code == 0, found.output
    for word in ("ms a step", "convolution", "cross-attention", "launch gaps", "not in it"):
        assert word in found.output


def test_parallelism_of_a_model_is_named() -> None:
    spread = ("--tp", "2", "--pp", "2", "--ep", "2", "--batch", "4", "--in", "64", "--out", "8")
    found = perf("model", "mixtral-8x7b", "--board", "h200", *spread, "--no-cuda-graphs")
    assert found.exit_code == 0, found.output
    assert "on 4 x h200 (tp 2, pp 2, ep 2)" in found.output
    assert "send to the next stage" in found.output
    assert "launch gaps" in found.output


@pytest.mark.parametrize("more", [(), ("--no-cuda-graphs",)])
def test_boards_side_by_side_take_the_time_that_each_takes_alone(more: tuple[str, ...]) -> None:
    """The rows of both passes are compared, and the launch gaps where there are some."""

    def rows(board: str) -> list[str]:
        given = ("--batch", "4", "--in", "64", "--out", "8", *more)
        found = perf("model", "mixtral-8x7b", "--board", board, *given)
        assert found.exit_code == 0, found.output
        at = found.output.index("\nprefill")
        return [line for line in found.output[at:].splitlines() if line.startswith("  ")]

    alone = [rows(board) for board in ("h200", "b200")]
    both = rows("h200,b200")
    assert len(both) == len(alone[0]) == len(alone[1])
    assert sum("launch gaps" in line for line in both) == (2 if more else 0)
    for line, *others in zip(both, *alone, strict=True):
        times = [re.findall(r"([0-9.]+) ms", other)[-1] for other in others]
        assert line.split()[-2:] == times
        assert all(line[:20] == other[:20] for other in others)


def test_a_board_that_no_donors_were_chosen_for_is_named() -> None:
    found = perf("validate", "--unseen", "--board", "gb200")
    assert found.exit_code == 2
    assert "no donor boards are defined for gb200" in found.output


@pytest.mark.parametrize("boards", ["h200,a30", "a30,h200", "a30,h200,a30"])
def test_each_column_has_the_causes_of_its_own_board(boards: str) -> None:
    """A cause that a board's time lacks is 0 in its column: the A30 has no fitted residual."""
    question = ["gemm", *GEMM[3:]]
    stacks = {
        name: json.loads(perf("predict", *question, "--board", name, "--json").output)["stack_us"]
        for name in boards.split(",")
    }
    assert stacks["h200"].keys() - stacks["a30"].keys()
    table = perf("compare", "--boards", boards, *question).output.splitlines()
    shown = {line[:30].strip(): line[30:].split() for line in table if line.startswith("  ")}
    for cause in stacks["h200"].keys() | stacks["a30"].keys():
        values = [stacks[name].get(cause, 0) for name in boards.split(",")]
        assert [float(one) for one in shown[cause]] == pytest.approx(values, abs=0.006), cause
