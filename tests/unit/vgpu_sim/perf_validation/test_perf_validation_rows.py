"""The rows of tables as validation reads them: calls, work and goals of each family, on invented
rows.
"""

from typing import Any

import numpy as np
import pytest

from support.worlds.paper_board import HOPPER
from vgpu_sim.perf import fitting, residual
from vgpu_sim.perf.attention import latent as latent_attention
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.parameters import Fitted, Parameter
from vgpu_sim.perf.validation import (
    attention,
    baselines,
    encoder,
    gemm,
    latent,
    measurements,
    moe,
    stream,
)
from vgpu_sim.perf.validation.accuracy import Accuracy
from vgpu_sim.perf.validation.families import FAMILIES, WORST, Outlier, Verdict, _suspect
from vgpu_sim.perf.validation.family import Family
from vgpu_sim.perf.validation.measurements import THEIRS, Table

H200 = BOARDS["h200"]
DRAM, BF16 = 4800e3, 989.4e6  # bytes and operations per microsecond


def table(**columns: list[Any]) -> Table:
    count = len(next(iter(columns.values())))
    made = {name: np.array(values) for name, values in columns.items()}
    return Table(made | {"us": np.arange(1.0, count + 1)}, "1.2")


ATTENTION = table(
    batch_size=[2, 2, 2, 2],
    isl=[1, 64, 64, 1],
    step=[99, 0, 0, 999],
    num_heads=[8, 8, 8, 8],
    num_key_value_heads=[4, 4, 4, 4],
    head_dim=[32, 32, 32, 32],
    window_size=[0, 0, 10, 100],
    kv_cache_dtype=["fp8", "bfloat16", "bfloat16", "fp8"],
)


def test_a_token_attends_to_its_context_and_a_prompt_to_half_of_itself() -> None:
    tokens = attention.calls_of(ATTENTION.rows(np.array([0, 3])), True)
    assert list(tokens.context) == [100, 1000]
    assert list(tokens.kv_bytes) == [1, 1]
    prompts = attention.calls_of(ATTENTION.rows(np.array([1, 2])), False)
    assert list(prompts.context) == [64, 64]
    assert list(prompts.kv_bytes) == [2, 2]
    work = attention.work_of("h200", tokens)
    assert work.math == pytest.approx([4 * 2 * 8 * 32 * seen / BF16 for seen in (100, 100)])
    cache = [2 * seen * 4 * 64 * 1 for seen in (100, 100)]
    assert work.moved == pytest.approx([(one + 4 * 2 * 8 * 32) / DRAM for one in cache])
    work = attention.work_of("h200", prompts)
    assert work.math == pytest.approx([4 * 2 * 8 * 32 * 64 * n * 0.5 / BF16 for n in (64, 10)])
    cache = [2 * n * 4 * 64 * 2 for n in (64, 10)]
    assert work.moved == pytest.approx([(one + 4 * 2 * 64 * 8 * 32) / DRAM for one in cache])


FIELDS = ("batch", "query", "context", "heads", "kv_heads", "head_dim", "window", "kv_bytes")


def test_an_encoder_attends_to_everything_and_latents_have_their_width() -> None:
    calls = encoder._calls(table(batch_size=[3], isl=[50], num_heads=[4], head_dim=[72]))
    assert [getattr(calls, name)[0] for name in FIELDS] == [3, 50, 50, 4, 4, 72, 0, 2]
    assert calls.causal is False
    work = attention.work_of("h200", calls)
    assert work.math == pytest.approx([4 * 3 * 4 * 72 * 50 * 50 / BF16])
    sizes = {"batch_size": [3], "num_heads": [4]}
    tokens = latent._calls(True, table(isl=[1], step=[19], **sizes))
    prompts = latent._calls(False, table(isl=[20], step=[0], **sizes))
    assert (tokens.context[0], prompts.context[0]) == (20, 20)
    assert tokens.cached[0, 0] == latent_attention.CACHED
    moved = 3 * 20 * 576 * 2 + 4 * 3 * 4 * 544
    assert attention.work_of("h200", tokens).moved[0] == pytest.approx(moved / DRAM)


def test_products_mixtures_and_streams_move_their_operands_once() -> None:
    rows = table(m=[8], n=[16], k=[32])
    for dtype, size, rate in (("bf16", 2, BF16), ("fp8", 1, 1978.9e6)):
        work = gemm._work(f"h200/{dtype}/x", rows)
        assert work.math == pytest.approx([2 * 8 * 16 * 32 / rate])
        assert work.moved == pytest.approx([(size * (8 * 32 + 32 * 16) + 2 * 8 * 16) / DRAM])
    collective = FAMILIES["collective"]
    sent = collective.work(
        "h200/all/nccl",
        table(
            op_name=["all_reduce", "all_gather"],
            num_gpus=[4, 4],
            message_size=[100, 100],
            nccl_dtype=["half", "int8"],
        ),
    )
    assert list(sent.math) == [0, 0]
    assert sent.moved == pytest.approx([2 * 0.75 * 200 / 450e3, 0.75 * 100 / 450e3])
    assert stream.FAMILY.name == "stream"


# Goals for mean errors, in percent: mechanism alone, and with the residual.
GOALS = {
    "gemm": {
        "a100-80gb/bf16/vllm": (6.5, 5.5),
        "h100-80gb/bf16/vllm": (5.0, 4.2),
        "h200/bf16/vllm": (4.8, 4.0),
        "b200/bf16/vllm": (5.8, 5.0),
        "gb200/bf16/vllm": (6.5, 5.5),
        "l40s/bf16/vllm": (9.0, 7.5),
        "rtx-pro-6000/bf16/vllm": (6.5, 5.0),
        "h100-80gb/fp8/sglang": (11.0, 7.5),
        "h200/fp8/sglang": (11.0, 7.5),
        "b200/fp8/sglang": (11.0, 7.5),
        "b200/nvfp4/sglang": (11.0, 8.0),
    },
    "moe": {"h100-80gb/bf16/vllm": (8.0, 4.8), "h200/bf16/vllm": (8.0, 4.8)},
    "attention-context": {
        "h100-80gb/bf16/vllm": (7.0, 4.5),
        "h200/bf16/vllm": (7.0, 4.5),
        "b200/bf16/vllm": (9.0, 6.0),
    },
    "attention-generation": {
        "h100-80gb/bf16/vllm": (6.5, 2.8),
        "h200/bf16/vllm": (6.5, 2.8),
        "b200/bf16/vllm": (6.5, 4.0),
    },
}
# The split (one shape in ``fit_one_of`` is fitted), and the number of starting points of a fit.
SPLIT = {"collective": (5, 6), "mla-context": (10, 3), "mla-generation": (10, 3), "stream": (20, 1)}


@pytest.mark.parametrize("name", FAMILIES)
def test_goals_and_splits_are_those_that_were_written_down(name: str) -> None:
    family = FAMILIES[name]
    goals = GOALS.get(name, {})
    if name != "collective":
        assert family.goals == {key: goal for key, (goal, _) in goals.items()}
    assert family.corrected_goals == {key: goal for key, (_, goal) in goals.items()}
    assert family.fit_one_of == SPLIT.get(name, (50, 1))[0]
    if name in ("collective", "mla-context", "mla-generation", "gemm", "moe"):
        assert family.starts == SPLIT.get(name, (50, 1))[1]


def test_goals_of_collectives_are_of_all_reduce_and_parameters_of_pcie_are_boards_without_nvlink() -> (
    None
):
    family = FAMILIES["collective"]
    goals = {"h100-80gb": 5.0, "h200": 5.0, "b200": 7.0}
    assert family.goals == {f"{board}/all_reduce/nccl": goal for board, goal in goals.items()}
    assert {key.split("/")[0] for key in family.others} == {"l40s"}
    assert len(family.keys) == 10


def accuracy(mape: float) -> Accuracy:
    return Accuracy(1, mape, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("mape", "corrected", "donor", "met"),
    [
        (5.04, 4.04, None, True),  # rounded to a tenth
        (5.06, 4.0, None, False),
        (5.0, 4.06, None, False),
        (5.0, None, None, True),
        (9.0, None, "h100-80gb", None),
    ],
)
def test_goals_need_both_errors_and_the_boards_own_parameters(
    mape: float, corrected: float | None, donor: str | None, met: bool | None
) -> None:
    family = Family(
        *("gemm", ("k",), (), ()), *[None] * 2, {"k": 5.0}, None, corrected_goals={"k": 4.0}
    )  # type: ignore[arg-type]
    second = None if corrected is None else accuracy(corrected)
    nothing = np.zeros(1)
    fitted = Fitted({}, (), (), ((1.0, 0.1),), 0, "")
    verdict = Verdict(
        *(family, "k", accuracy(mape), nothing, nothing, {}, (), fitted, 0, donor, second),
        {"5-NN": 4.5, "RBF": 3.0, "roofline": 9.5},
    )
    assert verdict.met is met
    own = corrected if corrected is not None else mape
    better = [
        name for name, error in (("5-NN", 4.5), ("RBF", 3.0), ("roofline", 9.5)) if error < own
    ]
    assert verdict.better_baselines == better


def test_a_wrong_shape_names_its_error_and_the_cause_that_is_suspected() -> None:
    assert Outlier({}, 10.0, 15.0, "").error == pytest.approx(50)
    assert Outlier({}, 10.0, 5.0, "").error == pytest.approx(-50)
    causes = {"launch": 1.0, "math": 3.0, "memory": 2.0}
    assert _suspect(causes, -1.0) == "math"
    assert _suspect(causes, 0.0) == "math"
    assert _suspect(causes, 1.0) == "another kernel than the best, or math"
    assert WORST == 20


def test_tables_are_of_the_boards_names_there_and_rows_that_come_again_are_found() -> None:
    assert THEIRS == {
        "a100-80gb": "a100_sxm",
        "h100-80gb": "h100_sxm",
        "h200": "h200_sxm",
        "b200": "b200_sxm",
        "gb200": "gb200",
        "l40s": "l40s",
        "rtx-pro-6000": "rtx_pro_6000_server",
    }
    rows = table(a=[1, 1, 2, 1, 2], b=[1, 2, 1, 1, 1])
    assert list(measurements.find_repeated_rows(rows, "a", "b")) == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert (measurements.VERSION, measurements.FIT_ONE_OF) == ("0.12.0", 50)


def test_errors_in_percent_of_what_was_measured() -> None:
    """One prediction is twice too long, one half: their mean logarithm is 0; e^0.7 is below 2."""
    measured = np.array([10.0, 10.0, 10.0, 10.0])
    found = Accuracy.of(
        measured * [1, 2, 3, 4], measured * [2, 1, 3, 4], np.array([0.7, 0.69, 0, 0])
    )
    assert (found.rows, found.mape, found.median, found.bias) == pytest.approx((4, 37.5, 25, 0))
    assert found.p90 == pytest.approx(85)
    assert found.inside == 75


def test_the_tuned_roofline_and_its_neighbours() -> None:
    work = baselines.Work(np.array([8.0, 1.0]), np.array([2.0, 6.0]))
    tuned = np.log([3.0, 0.5, 0.75])
    assert baselines._roofline(work, tuned) == pytest.approx([3 + 16, 3 + 8])
    made = baselines.Work.of(HOPPER, "bf16", np.array([3e8]), np.array([5e6]))
    assert (made.math[0], made.moved[0]) == pytest.approx((3, 5))
    # Five nearest of seven on a line, weighted by the inverse of their distances.
    seen, logs = np.arange(7.0)[:, None], np.array([1.0, 2, 3, 4, 5, 60, 70])
    near = baselines._nearest(seen, logs, np.array([[2.5]]))
    weights = [1 / 2.5, 1 / 1.5, 1 / 0.5, 1 / 0.5, 1 / 1.5]
    assert near[0] == pytest.approx(np.dot(weights, [1, 2, 3, 4, 5]) / sum(weights), rel=1e-6)
    few = baselines._nearest(seen[:2], logs[:2], np.array([[0.25]]))
    assert few[0] == pytest.approx((1 / 0.25 + 2 / 0.75) / (1 / 0.25 + 1 / 0.75), rel=1e-6)
    assert baselines.NAMES == ("roofline", "5-NN", "RBF")


LINE = (Parameter("a", "1", 1.0, 0.1, 10.0, ""), Parameter("b", "1", 1.0, 0.1, 10.0, ""))


def straight(count: int, *, noise: float = 0.0, prior: bool = True) -> fitting.Problem:
    """Return a problem with times a + b x, with a = 2 and b = 3; no kernel is chosen."""
    x = np.linspace(0, 4, count)
    us = (2 + 3 * x) * np.exp(noise * np.random.default_rng(3).standard_normal(count))

    def times(values: Any, rows: np.ndarray, kernels: Any) -> np.ndarray:
        assert kernels is None
        return np.asarray(values["a"] + values["b"] * x[rows])

    return fitting.Problem(LINE, us, lambda values, rows: None, times)


def test_a_fit_of_a_line_in_few_steps_by_its_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(fitting, "_ROUNDS", 8)  # too few for a fit with a wrong derivative
    found = fitting.fit(straight(200), "here", (0, 1))
    assert (found.values["a"], found.values["b"]) == pytest.approx((2, 3), rel=0.01)
    assert (found.names, found.rows, found.source) == (("a", "b"), 200, "here")
    covariance = np.array(found.covariance)
    assert covariance.shape == (2, 2)
    assert len(found.scatter) == 6
    assert all(width < 0.01 for _, width in found.scatter)


def test_the_covariance_is_that_of_gauss_and_newton() -> None:
    """Rows (1, 0), (1, 0), (0, 2), (0, 0): twice the cost over two free rows, over 2 and over 4."""
    jacobian = np.array([[1.0, 0], [1, 0], [0, 2], [0, 0]])
    found = np.array(fitting._covariance(jacobian, 3.0))
    assert found == pytest.approx(np.diag([3 / 2, 3 / 4]))
    one = np.array(fitting._covariance(jacobian[:2, :1], 3.0))
    assert one == pytest.approx(np.array([[2 * 3 / 1 / 2]]))


def test_scatter_is_the_90th_percentile_of_rows_that_were_left_out() -> None:
    pytest.importorskip("scipy")
    assert fitting.FOLDS == 4
    found = fitting._scatter(straight(120, noise=0.1), {"a": 2.0, "b": 3.0})
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    widths = [width for _, width in found]
    assert 0.1 < np.mean(widths) < 0.25  # 1.64 standard deviations, and one more row than there is


def test_a_residual_s_scatter_is_of_six_classes_of_time() -> None:
    errors, us = np.arange(60.0), np.arange(60.0)[::-1]
    found = residual._scatter(errors, us)
    assert [at for at, _ in found] == [4.5, 14.5, 24.5, 34.5, 44.5, 54.5]
    # For ten rows the quantile is 0.9 x 11 / 10 = 0.99: the rank counts one more row than there is.
    assert [width for _, width in found] == pytest.approx([58.91, 48.91, 38.91, 28.91, 18.91, 8.91])


def test_a_mixture_s_rows_are_gated_but_for_the_models_that_are_not() -> None:
    columns = {
        "num_tokens": [4, 4, 4],
        "hidden_size": [64, 64, 64],
        "inter_size": [256, 256, 1856],
        "topk": [2, 22, 2],
        "num_experts": [32, 32, 32],
        "moe_tp_size": [2, 1, 1],
        "moe_ep_size": [4, 1, 1],
        "distribution": ["balanced"] * 3,
    }
    calls = moe._calls(table(**columns))
    assert list(calls.inner) == [128, 256, 1856]
    assert list(calls.gated) == [True, False, False]
    assert list(calls.ranks) == [4, 1, 1]


@pytest.mark.parametrize(
    ("tokens", "experts_in_use"),
    # 8 experts on 2 ranks, 1 per token: a rank uses as many experts as it has pairs, at most 4.
    [(3, 1.5), (40, 4)],
)
def test_a_mixture_reads_the_experts_in_use_and_its_tokens_twice(
    tokens: int, experts_in_use: float
) -> None:
    columns = {"num_tokens": [tokens], "hidden_size": [64], "inter_size": [256], "topk": [1]}
    columns |= {"num_experts": [8], "moe_tp_size": [1], "moe_ep_size": [2]}
    rows = table(**columns, distribution=["balanced"])
    work = moe._work("h200/fp8_block/vllm", rows)
    weights = 3 * 64 * 256 * experts_in_use
    assert work.moved == pytest.approx([(weights + tokens * 64 + 2 * tokens * 64) / DRAM])
    assert work.math == pytest.approx([2 * 3 * tokens / 2 * 64 * 256 / 1978.9e6])


def test_a_stream_s_rows_are_read_in_bf16_and_written_in_fp8() -> None:
    rows = table(m=[100], k=[200])
    model = stream._rows("h200/elementwise/vllm", rows)
    assert np.exp(model.sizes(np.array([0]))[0]) == pytest.approx([100, 200])
    work = stream._work("h200/elementwise/vllm", rows)
    assert (work.math[0], work.moved[0]) == pytest.approx((0, 3 * 20000 / DRAM))
    assert stream.FAMILY.starts == 4
