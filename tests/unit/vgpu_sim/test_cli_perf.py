"""`tessera perf`: what it prints, as text and as JSON, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main
from vgpu_sim.perf.errors import NoData
from vgpu_sim.perf.judge import families, page

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


def test_json_says_the_same() -> None:
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
        (["--board", "h200", "-m", "0"], "Invalid value for '-m'"),
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
def test_what_the_board_has_no_memory_for_is_refused(operation: list[str]) -> None:
    done = perf("predict", *operation, "--board", "h200")
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"error: operands and result take \S+ GB; h200 has 141\n", done.stderr)


def test_a_load_that_is_none_is_named_as_it_was_typed() -> None:
    sizes = ["--tokens", "1", "--hidden", "64", "--inner", "64", "--experts", "8", "--topk", "2"]
    done = perf("predict", "moe", "--board", "h200", *sizes, "--load", "foo")
    assert done.exit_code == 2
    assert done.stderr == "error: load 'foo' is neither balanced nor power_law_EXPONENT\n"


def test_validate_refuses_a_board_that_is_not_there() -> None:
    done = perf("validate", "--board", "h20")
    assert done.exit_code == 2
    assert "no board 'h20'" in done.stderr


def refuse_to_judge(*_: object) -> None:
    raise NoData("no measurements")


def test_validate_without_measurements_prints_no_empty_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(families, "judge", refuse_to_judge)
    done = perf("validate", "--board", "h200")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "error: no measurements\n")


def test_a_page_that_cannot_be_made_is_refused_before_anything_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(families, "judge", refuse_to_judge)
    nowhere = perf("validate", "--html", str(tmp_path / "none" / "page.html"))
    assert (nowhere.exit_code, "is not a directory" in nowhere.stderr) == (2, True)
    monkeypatch.setattr(page.util, "find_spec", lambda name: None)
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
    assert "error: llama-2-70b needs 140.6 GB a rank with tp 1" in done.stderr


def test_the_residual_is_a_cause_that_can_be_left_out() -> None:
    corrected = json.loads(perf("predict", *GEMM, "--json").output)
    alone = json.loads(perf("predict", *GEMM, "--mechanistic", "--json").output)
    learned = corrected["stack_us"].pop("residual (learned)")
    assert corrected["stack_us"] == alone["stack_us"]
    assert alone["us"] == pytest.approx(corrected["us"] - learned)
    assert alone["rates"]["Tflop/s"] == pytest.approx(2 * 4096**3 / alone["us"] / 1e6)
    unseen = ["gemm", "--board", "a30", *GEMM[3:], "--json"]
    assert "residual (learned)" not in json.loads(perf("predict", *unseen).output)["stack_us"]
    question = ["model", "llama-3-8b", "--board", "h200", "--json"]
    whole, bare = (perf(*question, *more).output for more in ([], ["--mechanistic"]))
    assert "residual (learned)" in whole
    assert "residual (learned)" not in bare


@pytest.mark.parametrize(
    ("asked", "said"),
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
def test_each_operation_has_a_command_of_its_own(asked: tuple[str, ...], said: str) -> None:
    found = perf("predict", asked[0], "--board", "h200", *asked[1:])
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
    assert perf("model", "sdxl", "--board", "h200", "--tp", "2").exit_code == 2


def test_parallelism_of_a_model_is_named() -> None:
    spread = ("--tp", "2", "--pp", "2", "--ep", "2", "--batch", "4", "--in", "64", "--out", "8")
    found = perf("model", "mixtral-8x7b", "--board", "h200", *spread, "--no-cuda-graphs")
    assert found.exit_code == 0, found.output
    assert "on 4 x h200 (tp 2, pp 2, ep 2)" in found.output
    assert "send to the next stage" in found.output
    assert "launch gaps" in found.output


def test_a_board_that_no_donors_were_chosen_for_is_named() -> None:
    found = perf("validate", "--unseen", "--board", "gb200")
    assert found.exit_code == 2
    assert "no donors were chosen for gb200" in found.output
