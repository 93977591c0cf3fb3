"""Whole models: their sizes, the memory of a rank, and passes as sums of their operators."""

import pytest

from vgpu_sim.perf.errors import BadShape, UnknownBoard, UnknownModel
from vgpu_sim.perf.models import ARCHITECTURES, Layout, Serving, diffusion, predict_serving
from vgpu_sim.perf.models.gaps import host_gaps_us
from vgpu_sim.perf.models.graph import Shard
from vgpu_sim.perf.models.memory import memory

LLAMA = Serving("llama-2-70b", "h100-80gb", 4, 16, 1024, 256)
# Billions of parameters, as the models are published.
SIZES = {
    "llama-2-7b": 6.74,
    "llama-2-13b": 13.0,
    "llama-2-70b": 69.0,
    "llama-3-8b": 8.03,
    "llama-3-70b": 70.6,
    "llama-3-405b": 405.9,
    "mixtral-8x7b": 46.7,
    "mixtral-8x22b": 140.6,
    "deepseek-v3": 671.0,
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_models_have_the_size_that_they_are_published_with(name: str) -> None:
    assert ARCHITECTURES[name].parameters / 1e9 == pytest.approx(SIZES[name], rel=0.005)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_ranks_share_the_weights_and_the_cache(tp: int) -> None:
    model = ARCHITECTURES["llama-2-70b"]
    need = memory(Shard(model, "h200", Layout(tp)), 16, 4096, 1)
    assert need.weights == pytest.approx(2 * model.parameters / tp / 1e9, rel=1e-6)
    assert need.cache == pytest.approx(2 * 2 * 80 * 16 * 4096 * 8 * 128 / tp / 1e9)


def test_heads_that_cannot_be_shared_are_duplicated() -> None:
    few = ARCHITECTURES["llama-2-70b"]
    assert Shard(few, "h200", Layout(8)).kv_heads == 1


def test_a_pass_is_the_sum_of_its_operators() -> None:
    found = predict_serving(LLAMA)
    for one in (found.prefill, found.decode):
        layers = [part for part in one.parts if part.times == 80]
        assert one.layer_us == pytest.approx(sum(part.prediction.us for part in layers))
        ends = sum(part.us for part in one.parts if part.times == 1)
        assert one.us == pytest.approx(80 * one.layer_us + ends)
        assert 0 < one.half_width_us < 0.2 * one.us
    assert found.prefill.step.tokens == 16 * 1024
    assert found.decode.step.context == 1024 + 128
    total_ms = found.ttft_ms + 255 * found.tpot_ms
    assert found.tokens_per_s == pytest.approx(1000 * 16 * 256 / total_ms)


def test_times_are_within_what_the_board_could_do() -> None:
    """A token reads all weights; a prompt computes two operations per weight and token."""
    found = predict_serving(LLAMA)
    read_ms = found.memory.weights / 3350 * 1e3
    assert read_ms < found.tpot_ms < 3 * read_ms
    math_ms = 2 * 69e9 / 4 * 16 * 1024 / 989.4e12 * 1e3
    assert math_ms < found.ttft_ms < 3 * math_ms


def test_more_ranks_are_faster_and_communicate_more() -> None:
    two, eight = (
        predict_serving(Serving("llama-2-70b", "h200", tp, 16, 1024, 256)) for tp in (2, 8)
    )
    assert eight.tpot_ms < two.tpot_ms

    def talk(report) -> float:
        parts = report.decode.parts
        return sum(part.us for part in parts if "all-reduce" in part.name) / report.decode.us

    assert talk(eight) > talk(two)
    alone = predict_serving(Serving("llama-3-8b", "h200", 1, 1, 16, 2))
    assert not [part for part in alone.decode.parts if "all-" in part.name or "gather" in part.name]


def test_a_mixture_has_experts_in_the_place_of_its_feed_forward() -> None:
    names = [
        part.name
        for part in predict_serving(Serving("mixtral-8x7b", "h200", 2, 8, 64, 8)).decode.parts
    ]
    assert "experts" in names
    assert "router" in names
    assert "gate and up" not in names


DEEPSEEK = Serving("deepseek-v3", "b200", 8, 16, 512, 128, ep=8)


def test_latent_attention_caches_576_elements_a_token_and_every_rank_all_of_them() -> None:
    found = predict_serving(DEEPSEEK)
    assert found.memory.cache == pytest.approx(2 * 61 * 16 * 640 * 576 / 1e9)
    # Each of 8 ranks has an eighth of the experts, which are nearly all of 671e9 weights of 2
    # bytes.
    assert 671 * 2 / 8 < found.memory.weights < 1.05 * 671 * 2 / 8


def test_deepseek_has_three_dense_layers_and_58_of_experts() -> None:
    found = predict_serving(DEEPSEEK)
    for one, absorbs in ((found.prefill, False), (found.decode, True)):
        times: dict[str, int] = {}
        for part in one.parts:
            times[part.name] = times.get(part.name, 0) + part.times
        assert times["dense down"] == 3
        assert times["experts"] == times["shared expert: down"] == 58
        assert times["attention"] == one.layers == 61
        assert ("absorb keys" in times) == absorbs
        assert ("keys and values" in times) != absorbs


def test_experts_are_spread_whole_or_cut() -> None:
    """With ep each rank has some whole experts, without ep a part of each: weights are the same."""
    whole, cut = (
        predict_serving(Serving("mixtral-8x7b", "h200", 4, 8, 512, 8, ep=ep)) for ep in (4, 1)
    )
    assert whole.memory.weights == pytest.approx(cut.memory.weights)
    wanted = [
        next(p.prediction.shape for p in one.decode.parts if p.name == "experts")
        for one in (whole, cut)
    ]
    assert [(one["inner"], one["ranks"]) for one in wanted] == [(14336, 4), (14336 // 4, 1)]


def test_replicas_of_attention_exchange_tokens_and_share_the_cache() -> None:
    alone = predict_serving(Serving("mixtral-8x7b", "h200", 4, 8, 512, 8, ep=4))
    spread = predict_serving(Serving("mixtral-8x7b", "h200", 1, 8, 512, 8, dp=4, ep=4))
    names = [part.name for part in spread.decode.parts]
    assert {"dispatch to experts", "combine of experts"} < set(names)
    assert "all-reduce of attention" not in names
    assert "dispatch to experts" not in [part.name for part in alone.decode.parts]
    assert spread.decode.step.batch == 2
    assert spread.memory.cache == pytest.approx(alone.memory.cache)  # a quarter of heads or tokens
    tokens = [
        next(p.prediction.shape["tokens"] for p in one.decode.parts if p.name == "experts")
        for one in (alone, spread)
    ]
    assert tokens == [8, 8]


def test_stages_share_the_layers_and_fill_up() -> None:
    """Four microbatches through four stages: seven rounds of a quarter of the layers."""
    one = predict_serving(Serving("llama-2-70b", "h200", 2, 16, 512, 8))
    four = predict_serving(Serving("llama-2-70b", "h200", 2, 16, 512, 8, pp=4))
    assert four.prefill.step.batch == 4
    assert four.prefill.layers == 20 * 7
    sent = next(part for part in four.prefill.parts if part.name == "send to the next stage")
    assert sent.times == 6
    assert sent.prediction.shape["bytes"] == 4 * 512 * 8192 * 2
    assert four.memory.weights < 0.3 * one.memory.weights
    assert four.memory.cache == pytest.approx(one.memory.cache / 4)
    assert four.ttft_ms < one.ttft_ms  # four times the GPUs, and 7/4 of the ideal
    single = predict_serving(Serving("llama-2-70b", "h200", 2, 1, 512, 8, pp=4))
    assert single.prefill.layers == 80  # one sequence is in one stage at a time


def test_the_device_waits_for_a_host_that_launches_slower_than_it_runs() -> None:
    assert host_gaps_us([100.0] * 5, 10) == pytest.approx(10)  # only that of the first
    assert host_gaps_us([4.0] * 5, 10) == pytest.approx(10 + 4 * 6)
    # After a long operator the host is ahead: the three short ones are already launched.
    assert host_gaps_us([100.0, 4, 4, 4], 10) == pytest.approx(10)


def test_without_a_graph_short_tokens_wait_and_long_prompts_do_not() -> None:
    graph = predict_serving(Serving("llama-3-8b", "h200", 1, 1, 4096, 8))
    eager = predict_serving(Serving("llama-3-8b", "h200", 1, 1, 4096, 8, graphs=False))
    assert graph.decode.waiting == 0
    assert eager.tpot_ms > 1.1 * graph.tpot_ms
    assert eager.ttft_ms < 1.02 * graph.ttft_ms
    assert eager.as_json()["passes"]["decode"]["launch_gaps_us"] == eager.decode.waiting


def test_the_denoiser_has_the_published_number_of_weights() -> None:
    operators = diffusion.UNet("h200", 2, 1024).operators()
    assert sum(one.weights for one in operators) == 2_567_463_684


def test_drawing_is_a_sum_and_no_faster_than_its_arithmetic() -> None:
    found = diffusion.predict_image_generation("h200", diffusion.Request(steps=30))
    assert sum(us for _, us in found.kinds.values()) == pytest.approx(found.step_us)
    assert found.seconds == pytest.approx(30 * found.step_us / 1e6)
    # About 3 Tera-multiplications for each of two latents (Podell et al., 2023).
    assert found.step_us > 2 * 2 * 2.9e12 / 989.4e6
    assert found.step_us < 4 * 2 * 2 * 3.0e12 / 989.4e6
    assert found.as_json()["operators"]["self-attention"]["times"] == 70
    eager = diffusion.predict_image_generation("h200", diffusion.Request(steps=30, graphs=False))
    assert eager.step_us > found.step_us


def test_weights_in_fp8_are_half_as_large_and_tokens_faster() -> None:
    """The router, embedding, head and cache stay in bf16."""
    model = ARCHITECTURES["mixtral-8x7b"]
    wide, narrow = (
        predict_serving(Serving("mixtral-8x7b", "h200", 2, 8, 512, 64, ep=2, dtype=dtype))
        for dtype in ("bf16", "fp8")
    )
    kept = (2 * model.vocabulary / 2 + model.layers * model.experts) * model.hidden * 2 / 1e9
    assert narrow.memory.weights - kept == pytest.approx((wide.memory.weights - kept) / 2)
    assert narrow.memory.cache == wide.memory.cache
    assert 0.5 * wide.tpot_ms < narrow.tpot_ms < wide.tpot_ms
    types = {part.name: part.prediction.dtype for part in narrow.decode.parts}
    assert [types[name] for name in ("qkv", "output", "experts")] == ["fp8", "fp8", "fp8_block"]
    assert {types[name] for name in ("router", "head", "attention")} == {"bf16"}
    scaled = next(part for part in narrow.decode.parts if part.name == "scaling for output")
    assert scaled.prediction.shape["columns"] == 4096 // 2
    assert not [part for part in wide.decode.parts if "scaling" in part.name]


def test_deepseek_fits_a_node_of_h200_in_fp8() -> None:
    found = predict_serving(Serving("deepseek-v3", "h200", 8, 16, 512, 64, ep=8, dtype="fp8"))
    assert 671 / 8 < found.memory.weights < 1.06 * 671 / 8
    assert found.as_json()["dtype"] == "fp8"
    # A token reads at least the weights of all shared layers and of 8 of 256 experts.
    least_ms = 671 / 8 * 8 / 256 / 4800 * 1e3
    assert found.tpot_ms > least_ms


def test_json_has_every_operator_with_its_causes() -> None:
    row = predict_serving(LLAMA).as_json()
    operators = row["passes"]["decode"]["operators"]
    assert sum(one["times"] * one["us"] for one in operators) == pytest.approx(row["tpot_ms"] * 1e3)
    assert all(one["stack_us"] for one in operators)
    assert row["memory_gb"]["total"] > row["memory_gb"]["weights"]


@pytest.mark.parametrize(
    ("question", "error", "said"),
    [
        (Serving("llama-2-70b", "h100-80gb", 1, 1, 1, 1), BadShape, "has 80: it fits with tp 2"),
        (Serving("llama-3-405b", "a30", 8, 1, 1, 1), BadShape, "does not fit into one node"),
        (Serving("llama-9", "h200", 1, 1, 1, 1), UnknownModel, "no model 'llama-9'; did you mean"),
        (Serving("llama-3-8b", "h2", 1, 1, 1, 1), UnknownBoard, "no board 'h2'"),
        (Serving("llama-3-8b", "h200", 3, 1, 1, 1), BadShape, "tp must be one of 1, 2, 4, 8"),
        (Serving("llama-3-8b", "h200", 4, 4, 1, 1, pp=4), BadShape, "is 16: collectives among"),
        (Serving("llama-3-8b", "h200", 2, 1, 1, 1, ep=2), BadShape, "no experts: ep must be 1"),
        (Serving("llama-3-8b", "h200", 2, 2, 1, 1, dp=2), BadShape, "dp must be 1, not 2"),
        (Serving("mixtral-8x7b", "h200", 2, 1, 1, 1, ep=4), BadShape, "ep 4 must divide tp x dp"),
        (Serving("mixtral-8x7b", "h200", 2, 1, 1, 1, dp=2), BadShape, "batch must be a multiple"),
        (Serving("deepseek-v3", "h200", 8, 1, 1, 1, ep=8), BadShape, "fits with tp 8 in fp8"),
        (Serving("deepseek-v3", "a30", 8, 1, 1, 1, ep=8), BadShape, "not fit into one node of 8"),
        (Serving("llama-3-8b", "a30", 1, 1, 1, 1, dtype="fp8"), BadShape, "do not have fp8"),
        (Serving("llama-3-8b", "h200", 1, 1, 1, 1, dtype="int4"), BadShape, "bf16 or fp8, not"),
        (Serving("llama-3-8b", "h200", 1, 0, 1, 1), BadShape, "batch must be at least 1"),
        (Serving("llama-3-8b", "gb200", 1, 1, 16, 1), UnknownModel, "attention-context on gb200"),
        (
            Serving("llama-3-8b", "rtx-pro-6000", 2, 1, 16, 1),
            UnknownModel,
            "attention-context on rtx",
        ),
    ],
)
def test_what_cannot_be_served_is_named(question: Serving, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        predict_serving(question)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (diffusion.Request(side=1000), "must be a multiple of 32 pixels, not 1000"),
        (diffusion.Request(steps=0), "batch and steps must be at least 1"),
        (diffusion.Request(batch=4000), "sdxl needs .* h200 has 141"),
    ],
)
def test_what_cannot_be_drawn_is_named(wanted: diffusion.Request, said: str) -> None:
    with pytest.raises(BadShape, match=said):
        diffusion.predict_image_generation("h200", wanted)
