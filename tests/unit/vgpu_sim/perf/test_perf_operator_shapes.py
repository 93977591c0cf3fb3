"""Sizes and rates of each operator of a model, and of predictions, computed by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from vgpu_sim.perf.attention.predict import predict as attention
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.collective.predict import predict as collective, predict_send
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.gemm.predict import predict as gemm
from vgpu_sim.perf.models import ARCHITECTURES, Layout, Serving, predict_serving
from vgpu_sim.perf.models.graph import Operator, Shard, Step
from vgpu_sim.perf.models.memory import memory
from vgpu_sim.perf.moe.loads import Calls, loads
from vgpu_sim.perf.moe.predict import predict as moe
from vgpu_sim.perf.stream.predict import copy, predict as stream
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.perf.topology.routes import Routes

KINDS = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch", "query", "context", "heads", "kv_heads", "head_dim"),
    "mla": ("batch", "query", "context", "heads"),
    "moe": ("tokens", "hidden", "inner", "topk", "experts", "ranks"),
    "allreduce": ("collective", "gpus", "bytes"),
}
ROWS = ("rows", "columns", "bytes_read", "bytes_written")


def shapes(operators: Sequence[Operator]) -> dict[str, tuple[Any, ...]]:
    found = {}
    for name, ask in operators:
        prediction = ask()
        shape = tuple(prediction.shape[field] for field in KINDS.get(prediction.op, ROWS))
        found[name] = (prediction.op, prediction.dtype, *shape)
    assert len(found) == len(operators)
    return found


def norm(tokens: int, hidden: int) -> tuple[Any, ...]:
    """A row and the residual, both read and written."""
    return ("norm", "bytes", tokens, hidden, 4, 4)


def element(tokens: int, columns: int, read: int = 2) -> tuple[Any, ...]:
    return ("elementwise", "bytes", tokens, columns, read, 2)


def reduce(gpus: int, size: int) -> tuple[Any, ...]:
    return ("allreduce", "bf16", "all_reduce", gpus, size)


def test_a_layer_of_a_dense_model_on_two_ranks() -> None:
    """Llama 3 8B: width 4096, 32 query heads and 8 key heads, 14336 inner; 3 prompts of 20
    tokens.
    """
    ((count, operators),) = Shard(ARCHITECTURES["llama-3-8b"], "h200", Layout(2)).layers(
        Step(3, 20, 20)
    )
    assert count == 32
    both = reduce(2, 60 * 4096 * 2)
    assert shapes(operators) == {
        "norm of attention": norm(60, 4096),
        "qkv": ("gemm", "bf16", 60, (16 + 2 * 4) * 128, 4096),
        "rotary embedding": element(60, (16 + 4) * 128),
        "attention": ("attention", "bf16", 3, 20, 20, 16, 4, 128),
        "output": ("gemm", "bf16", 60, 4096, 16 * 128),
        "all-reduce of attention": both,
        "norm of feed-forward": norm(60, 4096),
        "gate and up": ("gemm", "bf16", 60, 2 * 7168, 4096),
        "activation": element(60, 7168, 4),
        "down": ("gemm", "bf16", 60, 4096, 7168),
        "all-reduce of feed-forward": both,
    }


@pytest.mark.parametrize(("query", "context"), [(1, 40), (40, 40)])
def test_layers_of_deepseek_v3_on_four_ranks_in_fp8(query: int, context: int) -> None:
    """Two ranks share matrices, two process separate sequences, all four share the experts."""
    model, tokens = ARCHITECTURES["deepseek-v3"], 4 * query
    shard = Shard(model, "h200", Layout(2, 1, 2, 4), "fp8")
    dense, mixed = shard.layers(Step(4, query, context))
    assert (dense[0], mixed[0]) == (3, 58)

    def linear(name: str, n: int, k: int) -> dict[str, tuple[Any, ...]]:
        scaled = ("quantize", "bytes", tokens, k, 2, 1)
        return {f"scaling for {name}": scaled, name: ("gemm", "fp8", tokens, n, k)}

    attended = linear("squeeze", 1536 + 576, 7168) | linear("queries", 64 * 192, 1536)
    if query == 1:
        attended["absorb keys"] = ("gemm", "bf16", tokens, 64 * 512, 128)
        attended["absorb values"] = ("gemm", "bf16", tokens, 64 * 128, 512)
    else:
        attended |= linear("keys and values", 64 * 256, 512)
    attended |= linear("output", 7168, 64 * 128)
    attended |= {
        "norm of attention": norm(tokens, 7168),
        "norms of latents": element(tokens, 1536 + 576),
        "rotary embedding": element(tokens, 64 * 64),
        "attention": ("mla", "bf16", 4, query, context, 64),
        "all-reduce of attention": reduce(2, tokens * 7168 * 2),
        "norm of feed-forward": norm(tokens, 7168),
    }
    ends = linear("dense gate and up", 2 * 9216, 7168) | linear("dense down", 7168, 9216)
    ends["dense activation"] = element(tokens, 9216, 4)
    ends["dense all-reduce"] = reduce(2, tokens * 7168 * 2)
    assert shapes(dense[1]) == attended | ends
    # A token is sent to at most four ranks; the two that hold it share the sending.
    sent = ("allreduce", "bf16", "alltoall", 4, tokens * 4 * 7168 * 2 // 2)
    ends = linear("shared expert: gate and up", 2048, 7168)
    ends |= linear("shared expert: down", 7168, 1024)
    ends |= {
        "router": ("gemm", "bf16", tokens, 256, 7168),
        "shared expert: activation": element(tokens, 1024, 4),
        "dispatch to experts": sent,
        "experts": ("moe", "fp8_block", 2 * tokens, 7168, 2048, 8, 256, 4),
        "combine of experts": sent,
        "all-reduce of feed-forward": reduce(2, tokens * 7168 * 2),
    }
    assert shapes(mixed[1]) == attended | ends


def test_what_comes_before_the_layers_after_them_and_between_stages() -> None:
    model, step = ARCHITECTURES["llama-3-8b"], Step(3, 20, 20)
    shard = Shard(model, "h200", Layout(8, 1))
    assert shapes(list(shard.outer_operators(step))) == {
        "embedding": ("embedding", "bytes", 60, 4096, 2, 2),
        "last norm": norm(3, 4096),
        "head": ("gemm", "bf16", 3, 16032, 4096),
        "gather of logits": ("allreduce", "bf16", "all_gather", 8, 3 * 16032 * 8 * 2),
        "sampling": ("sampling", "bytes", 3, 128256, 2, 0),
    }
    assert list(shard.stage_transfers(step)) == []
    assert shard.kv_heads == 1
    ((name, ask),) = Shard(model, "h200", Layout(1, 2)).stage_transfers(step)
    assert name == "send to the next stage"
    assert ask().shape == {"collective": "send", "gpus": 2, "bytes": 60 * 4096 * 2}
    alone = dict(Shard(model, "h200", Layout()).outer_operators(step))
    assert "gather of logits" not in alone


def test_activations_are_two_rows_of_the_width_and_three_of_what_a_token_has_inside() -> None:
    shard = Shard(ARCHITECTURES["mixtral-8x7b"], "h200", Layout(2))
    found = memory(shard, 5, 100, 700)
    assert found.activations == pytest.approx(2 * 700 * (2 * 4096 + 3 * 7168 * 2) / 1e9)
    assert found.reserved == 2
    parts = found.weights + found.cache + found.activations + 2
    assert found.total == pytest.approx(parts)
    dense = memory(Shard(ARCHITECTURES["llama-3-8b"], "h200", Layout(2, 2)), 5, 100, 700)
    assert dense.activations == pytest.approx(2 * 700 * (2 * 4096 + 3 * 7168) / 1e9)
    layer = (2 * 16 + 2 * 4) * 128 * 4096 + 3 * 4096 * 7168
    assert dense.weights == pytest.approx(2 * (16 * layer + 128256 * 4096) / 1e9)
    assert dense.cache == pytest.approx(2 * 32 * 5 * 100 * 2 * 4 * 128 / 2 / 1e9)


def test_a_pipeline_runs_each_microbatch_and_sends_between_all_but_the_last() -> None:
    """5 sequences in 2 stages: microbatches of 3 and 2, so 3 rounds of 16 of 32 layers."""
    found = predict_serving(Serving("llama-3-8b", "h200", 1, 5, 64, 9, pp=2)).decode
    times = {part.name: part.times for part in found.parts}
    assert found.step == Step(3, 1, 68)
    assert (times["qkv"], times["send to the next stage"], times["head"]) == (48, 2, 2)
    assert found.layers == 48
    layers = sum(part.us for part in found.parts if part.of_layer)
    assert found.layer_us == pytest.approx(layers / 48)
    halves = [part.times * np.subtract(*part.prediction.interval[::-1]) / 2 for part in found.parts]
    assert found.half_width_us == pytest.approx(sum(half**2 for half in halves) ** 0.5)


@pytest.mark.parametrize(
    ("prediction", "rates"),
    [
        (gemm("h200", "bf16", 8, 16, 32), {"Tflop/s": 8192e-6, "GB/s of operands": 1.792}),
        (gemm("h200", "fp8", 8, 16, 32), {"Tflop/s": 8192e-6, "GB/s of operands": 1.024}),
        (
            attention("h200", batch=2, query=1, context=50, heads=4, kv_heads=2, head_dim=64),
            {"GB/s of operands": 2 * 2 * (2 * 4 + 2 * 50 * 2) * 64e-3},
        ),
        (
            attention(
                "h200", batch=2, query=1, context=50, heads=4, kv_heads=2, head_dim=64, window=9
            ),
            {"GB/s of operands": 2 * 2 * (2 * 4 + 2 * 9 * 2) * 64e-3},
        ),
        (
            attention(
                "h200", batch=2, query=50, context=50, heads=4, kv_heads=2, head_dim=64, window=9
            ),
            {"GB/s of operands": 2 * 2 * (2 * 50 * 4 + 2 * 50 * 2) * 64e-3},
        ),
        (
            moe("h200", tokens=6, hidden=64, inner=32, topk=2, experts=4, ranks=2),
            {"Tflop/s": 2 * 6 * 2 / 2 * 64 * 32 * 3e-6},
        ),
        (
            moe("h200", tokens=6, hidden=64, inner=32, topk=2, experts=4, gated=False),
            {"Tflop/s": 2 * 6 * 2 * 64 * 32 * 2e-6},
        ),
        (
            collective("h200", "all_reduce", "bf16", 4, 1000),
            {"GB/s (algorithm)": 1.0, "GB/s (bus)": 1.5},
        ),
        (
            collective("h200", "all_gather", "bf16", 4, 1000),
            {"GB/s (algorithm)": 1.0, "GB/s (bus)": 0.75},
        ),
        (predict_send("h200", 1000), {"GB/s (algorithm)": 2.0, "GB/s (bus)": 1.0}),
        (stream("norm", "h200", 3, 7, 4, 2), {"GB/s": 0.126}),
        (copy("h200", "h2d", 5000), {"GB/s": 5.0}),
        (copy("h200", "d2d", 5000), {"GB/s": 10.0}),
    ],
    ids=lambda value: getattr(value, "op", ""),
)
def test_rates_are_amounts_over_the_time(prediction: Any, rates: dict[str, float]) -> None:
    assert {name: rate * prediction.us for name, rate in prediction.rates.items()} == pytest.approx(
        rates
    )
    assert prediction.percent == pytest.approx(100 * (prediction.interval[1] / prediction.us - 1))
    plain = prediction.mechanistic()
    assert sum(plain.stack.values()) == pytest.approx(plain.us)
    assert {name: rate * plain.us for name, rate in plain.rates.items()} == pytest.approx(rates)
    half = prediction.fitted.half_width(np.array([plain.us]))[0]
    assert np.log(np.array(plain.interval) / plain.us) == pytest.approx([-half, half])


FULL = 80e9  # bytes of an H100


@pytest.mark.parametrize(
    ("ask", "size"),
    [
        (lambda n: gemm("h100-80gb", "bf16", n, 1, 1), 2 * 2),  # A and C have m rows
        (lambda n: gemm("h100-80gb", "bf16", 1, n, 1), 2 * 2),
        (
            lambda n: attention(
                "h100-80gb", batch=1, query=1, context=n, heads=1, kv_heads=1, head_dim=64
            ),
            4 * 64,
        ),
        (
            lambda n: moe(
                "h100-80gb",
                tokens=n,
                hidden=2048,
                inner=1,
                topk=1,
                experts=1,
                distribution="balanced",
            ),
            4 * 2048,
        ),
        (lambda n: collective("h100-80gb", "all_gather", "bf16", 2, n), 1),
        (lambda n: stream("norm", "h100-80gb", n, 1024, 4, 4), 8 * 1024),
        (lambda n: copy("h100-80gb", "h2d", n), 1),
    ],
)
def test_what_the_memory_just_holds_is_predicted_and_no_more(ask: Any, size: int) -> None:
    most = int(FULL // size)
    ask(most - 8)  # in addition to the part that does not grow with it
    with pytest.raises(BadShape, match=r"h100-80gb has 80$"):
        ask(most + 1)


def calls(tokens: int, topk: int, experts: int, ranks: int, how: str) -> Calls:
    numbers = (tokens, 64, 64, topk, experts, ranks)
    return Calls(*(np.array([n]) for n in numbers), np.array([how]), np.array([True]))


@pytest.mark.parametrize(
    ("tokens", "topk", "experts", "ranks", "exponent"),
    [(100, 4, 16, 1, 1.2), (100, 4, 16, 4, 0.7), (100, 4, 16, 2, 1.0), (3, 2, 16, 2, 1.2)],
)
def test_a_power_law_is_drawn_six_times_and_the_busiest_rank_counts(
    tokens: int, topk: int, experts: int, ranks: int, exponent: float
) -> None:
    """Weights are between 1 and 0.8 of the tokens, or 0.01 and 2 with fewer pairs than experts."""
    draws, pairs = np.random.default_rng(7), tokens * topk
    low, high = (1.0, 0.8 * tokens) if pairs > experts else (0.01, 2.0)
    found = []
    for _ in range(6):
        uniform = draws.random(experts)
        if exponent == 1:
            weights = low * (high / low) ** uniform
        else:
            ends = [end ** (1 - exponent) for end in (low, high)]
            weights = (ends[0] + (ends[1] - ends[0]) * uniform) ** (1 / (1 - exponent))
        exact = weights / weights.sum() * pairs
        load = np.floor(exact)
        for one in sorted(range(experts), key=lambda i: load[i] - exact[i])[
            : round(pairs - load.sum())
        ]:
            load[one] += 1
        parts = np.split(load, ranks)
        found.append(max(parts, key=lambda part: part.sum()))
    made = loads(calls(tokens, topk, experts, ranks, f"power_law_{exponent}"))
    assert made.pairs[0, 0] == pytest.approx(max(1, np.mean([one.sum() for one in found])))
    assert made.active[0, 0] == pytest.approx(np.mean([(one > 0).sum() for one in found]))
    for column, rows in enumerate((16, 32, 64, 128)):
        tiles = np.mean([np.ceil(one / rows).sum() for one in found])
        assert made.tiles[0, column] == pytest.approx(max(1, tiles))


@pytest.mark.parametrize(
    ("tokens", "pairs", "active"),
    # 8 experts on 2 ranks, 2 per token: a rank's pairs, and how many of its four experts have one.
    [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 4), (64, 64, 4)],
)
def test_a_balanced_load_is_spread_over_as_many_experts_as_there_are_pairs(
    tokens: int, pairs: int, active: int
) -> None:
    made = loads(calls(tokens, 2, 8, 2, "balanced"))
    assert (made.pairs[0, 0], made.active[0, 0]) == (pairs, active)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        *(({name: 0}, f"^{name} must be at least 1") for name in ("tokens", "hidden", "inner")),
        *(({name: 0}, f"^{name} must be at least 1") for name in ("topk", "experts", "ranks")),
        ({"topk": 4}, ""),
        ({"topk": 5}, "topk must not exceed"),
        ({"ranks": 4}, ""),
        ({"ranks": 3}, "multiple of the number of ranks"),
        ({"experts": 1 << 16}, ""),
        ({"experts": (1 << 16) + 1}, "at most 65536"),
        ({"distribution": "power_law_10"}, ""),
        ({"distribution": "power_law_10.1"}, "above 0 and at most 10"),
        ({"distribution": "power_law_0"}, "above 0 and at most 10"),
        ({"distribution": "power_law_x"}, "neither 'balanced' nor"),
        ({"distribution": "power_law_nan"}, "above 0"),
    ],
)
def test_a_mixture_that_fits_and_the_next_that_does_not(
    change: dict[str, Any], problem: str
) -> None:
    usual = {"tokens": 1, "hidden": 1, "inner": 1, "topk": 1, "experts": 4, "ranks": 1}
    usual |= {"distribution": "balanced", "gated": True} | change
    fields = {name: np.array([value]) for name, value in usual.items()}
    if not problem:
        Calls(**fields)
        return
    with pytest.raises(BadShape, match=problem):
        Calls(**fields)


def test_links_of_a_server_have_the_rates_of_its_buses() -> None:
    """H100s: PCIe 64 GB/s; below each of four bridges one switch; UPI 120, 400 Gbit/s, drives."""
    routes = Routes(topology_named("pcie-2-socket"), BOARDS["h100-80gb"])
    rates = {
        ("gpu0", "switch0"): 64e3,
        ("switch0", "bridge0"): 64e3,
        ("bridge0", "numa0"): 64e3,
        ("hca1", "wire1"): 50e3,
        ("nvme3", "switch3"): 4 * 16e3 * 128 / 130 / 8,
        ("cxl0", "bridge4"): 8 * 32e3 * 128 / 130 / 8,
        ("bridge4", "numa0"): 8 * 32e3 * 128 / 130 / 8,
        ("numa0", "numa1"): 120e3,
    }
    for (one, other), rate in rates.items():
        assert routes.capacity[one, other] == routes.capacity[other, one] == pytest.approx(rate)
    assert not routes.switched
    flat = Routes(topology_named("flat"), BOARDS["a30"])
    assert flat.capacity["bridge0", "numa0"] == 8 * 32e3
    meshed = Routes(topology_named("hgx-4"), BOARDS["b200"])
    assert meshed.capacity["gpu3", "gpu0"] == pytest.approx(900e3 / 3)
    assert Routes(topology_named("dgx-b200"), BOARDS["b200"]).capacity["gpu7", "nvswitch"] == 900e3
    few = Routes(topology_named("custom:numa=1;nvlinks=4;gpus=10.0.0.0,11.0.0.1"), BOARDS["b200"])
    assert few.capacity["gpu0", "gpu1"] == 200e3
