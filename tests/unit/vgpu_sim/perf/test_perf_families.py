"""Attention, mixtures of experts, collectives, streams: stacks that add up, and invariants."""

import numpy as np
import pytest

from vgpu_sim.perf import parameters
from vgpu_sim.perf.attention import Calls as Attention, latent
from vgpu_sim.perf.attention.geometry import GENERATION, Kernel, work
from vgpu_sim.perf.attention.parameters import PARAMETERS as ATTENTION
from vgpu_sim.perf.attention.predict import predict as attention
from vgpu_sim.perf.collective.parameters import PARAMETERS as COLLECTIVE, WITHOUT_NVLINK
from vgpu_sim.perf.collective.predict import predict as collective, predict_send
from vgpu_sim.perf.errors import BadShape, UnknownModel
from vgpu_sim.perf.moe.loads import TILES, Calls as Mixtures, loads
from vgpu_sim.perf.moe.parameters import PARAMETERS as MOE
from vgpu_sim.perf.moe.predict import predict as moe
from vgpu_sim.perf.residual import CAUSE
from vgpu_sim.perf.stream.parameters import PARAMETERS as STREAM
from vgpu_sim.perf.stream.predict import (
    copy,
    embedding,
    predict as stream,
    quantize,
    sampling,
    softmax,
)

LLAMA = {"heads": 16, "kv_heads": 2, "head_dim": 128}
MIXTRAL = {"hidden": 4096, "inner": 14336, "topk": 2, "experts": 8}
BOARDS = ("h100-80gb", "h200", "b200")
SDXL = {"batch": 2, "query": 4096, "context": 77, "heads": 10, "kv_heads": 10, "head_dim": 64}
SDXL["causal"] = False
FAMILIES = {
    "attention-context": ATTENTION,
    "attention-generation": ATTENTION,
    "attention-encoder": ATTENTION,
    "mla-context": ATTENTION,
    "mla-generation": ATTENTION,
    "moe": MOE,
    "collective": COLLECTIVE,
    "stream": STREAM,
}


def predictions(board: str):
    yield attention(board, batch=4, query=2048, context=2048, **LLAMA)
    yield attention(board, batch=64, query=1, context=2048, **LLAMA)
    yield attention(board, batch=1, query=1, context=1, **LLAMA)
    yield attention(board, batch=64, query=1, context=4096, window=128, **LLAMA)
    yield attention(board, **SDXL)
    for query in (1, 2048):
        yield latent.predict(board, batch=4, query=query, context=2048, heads=16)
    yield predict_send(board, 1 << 20)
    for op in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        for size in (256, 1 << 20, 1 << 28):
            yield collective(board, op, "bf16", 8, size)
    for tokens in (1, 64, 8192):
        yield moe(board, tokens=tokens, **MIXTRAL)
    yield stream("elementwise", board, 4096, 8192)
    yield stream("norm", board, 1, 8192)
    yield copy(board, "d2d", 1 << 30)
    yield copy(board, "h2d", 1 << 30)


@pytest.mark.parametrize("board", BOARDS)
def test_causes_are_positive_and_add_to_the_time(board: str) -> None:
    for found in predictions(board):
        causes = [part for name, part in found.stack.items() if name != CAUSE]
        assert min(causes) > -1e-9, found
        assert sum(found.stack.values()) == pytest.approx(found.us)
        assert found.interval[0] < found.us < found.interval[1]
        assert found.as_json()["us"] == found.us


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_within_their_bounds(family: str) -> None:
    for key, fitted in parameters.read((parameters.FILES / f"{family}.json").read_text()).items():
        expected = (
            WITHOUT_NVLINK
            if key.startswith("l40s/") and family == "collective"
            else FAMILIES[family]
        )
        assert set(fitted.values) == {p.name for p in expected}, key
        for one in expected:
            assert one.low * 0.999 <= fitted.values[one.name] <= one.high * 1.001, (key, one.name)


SIZES = ("batch", "query", "context", "heads", "kv_heads", "head_dim", "window", "kv_bytes")


def calls(**sizes: int) -> Attention:
    usual = {"batch": 1, "query": 1, "context": 1, "heads": 1, "kv_heads": 1, "head_dim": 128}
    usual |= {"window": 0, "kv_bytes": 2} | sizes
    return Attention(**{name: np.array([size]) for name, size in usual.items()})


def tiles(of: Attention, kernel: Kernel) -> tuple[float, float, float]:
    found = work(of, (kernel,))
    return found.tiles[0, 0], found.longest[0, 0], found.ctas[0, 0]


def count_tiles(query: int, context: int, rows: int, window: int) -> list[int]:
    """Return the number of 128-key tiles that each query tile reads, counted query by query."""
    found = []
    for first in range(0, query, rows):
        seen: set[int] = set()
        for at in range(first, min(first + rows, query)):
            last = context - query + at
            begin = max(0, last - window + 1) if window else 0
            seen |= {key // 128 for key in range(begin, last + 1)}
        found.append(len(seen))
    return found


@pytest.mark.parametrize("window", [0, 100, 128, 700])
@pytest.mark.parametrize("query", [1, 127, 128, 300, 1024])
def test_tiles_are_those_that_counting_finds(query: int, window: int) -> None:
    expected = count_tiles(query, query, 128, window)
    found = tiles(calls(query=query, context=query, window=window), Kernel(128, False))
    assert found == (sum(expected), max(expected), len(expected))


def test_encoders_attend_to_everything_and_prompts_to_half() -> None:
    usual = calls(query=1024, context=1024)
    every = Attention(**{name: getattr(usual, name) for name in SIZES}, causal=False)
    assert tiles(every, Kernel(128, False)) == (8 * 8, 8, 8)
    assert tiles(usual, Kernel(128, False)) == (8 * 9 / 2, 8, 8)
    cross = calls(query=77, context=77)
    cross = Attention(
        **{name: getattr(cross, name) for name in SIZES} | {"query": np.array([4096])},
        causal=False,
    )
    assert tiles(cross, Kernel(128, False)) == (32, 1, 32)


def test_an_encoder_writes_no_cache() -> None:
    assert attention("h200", **SDXL).stack["write of the cache"] < 1
    prompt = attention("h200", batch=2, query=4096, context=4096, **LLAMA)
    assert prompt.stack["write of the cache"] > 2


def test_a_latent_is_read_once_for_all_heads() -> None:
    """A latent has 576 elements for all heads: long contexts take as long as reading the latent."""
    found = latent.predict("h200", batch=64, query=1, context=8192, heads=16)
    dram_us = 2 * 576 * 64 * 8192 / 4800e3
    assert dram_us < found.us < 2 * dram_us
    whole = attention("h200", batch=64, query=1, context=8192, heads=16, kv_heads=16, head_dim=128)
    assert whole.us > 4 * found.us


def test_heads_of_a_group_share_a_tile_and_split_keys_share_the_work() -> None:
    packed = tiles(calls(heads=16, kv_heads=2, context=4096), Kernel(64, True))
    assert packed == (2 * 32, 32, 2)
    split = tiles(calls(heads=16, kv_heads=2, context=4096), Kernel(64, True, 8))
    assert split == (2 * 32, 4, 16)


def test_a_window_makes_long_contexts_cheap() -> None:
    long = attention("h200", batch=64, query=1, context=65536, **LLAMA).us
    windowed = attention("h200", batch=64, query=1, context=65536, window=128, **LLAMA).us
    assert windowed < long / 10
    alone = [
        attention("h200", batch=64, query=1, context=context, window=128, **LLAMA).mechanistic().us
        for context in (8192, 65536)
    ]
    assert alone[0] == pytest.approx(alone[1])


def test_a_single_token_of_few_sequences_splits_its_keys() -> None:
    assert (
        attention("h200", batch=1, query=1, context=65536, **LLAMA).choice["parts of the keys"] > 4
    )
    many = attention("h200", batch=512, query=1, context=1024, **LLAMA)
    assert many.choice["parts of the keys"] == 1
    assert len(GENERATION) == 7


def mixtures(tokens: int, distribution: str, ranks: int = 1) -> Mixtures:
    numbers = (tokens, 4096, 1024, 8, 128, ranks)
    return Mixtures(*(np.array([n]) for n in numbers), np.array([distribution]), np.array([True]))


@pytest.mark.parametrize("tokens", [1, 3, 64, 4096])
@pytest.mark.parametrize("distribution", ["balanced", "power_law_1.2"])
def test_no_pair_of_token_and_expert_is_lost(tokens: int, distribution: str) -> None:
    found = loads(mixtures(tokens, distribution))
    assert found.pairs[0, 0] == pytest.approx(8 * tokens)
    assert 1 <= found.active[0, 0] <= min(128, 8 * tokens)
    for column, rows in enumerate(TILES):
        least = max(found.active[0, 0], 8 * tokens / rows)
        assert least - 1e-9 <= found.tiles[0, column] <= 128 + 8 * tokens / rows


def test_a_power_law_loads_the_busiest_rank_more() -> None:
    even, skewed = (loads(mixtures(4096, d, 16)) for d in ("balanced", "power_law_1.2"))
    assert skewed.pairs[0, 0] > 1.2 * even.pairs[0, 0]


def test_few_tokens_read_few_experts() -> None:
    times = [moe("h200", tokens=n, distribution="balanced", **MIXTRAL).us for n in (1, 2, 4, 8)]
    assert times[1] > 1.5 * times[0]
    assert times[3] == pytest.approx(times[2], rel=0.1)  # all eight experts are read


def test_the_switch_adds_no_bytes_of_one() -> None:
    large = 1 << 28
    assert collective("h200", "all_reduce", "bf16", 8, large).choice["protocol"] == "NVLS"
    assert collective("h200", "all_reduce", "int8", 8, large).choice["protocol"] != "NVLS"
    assert collective("a100-80gb", "all_reduce", "bf16", 8, large).choice["protocol"] != "NVLS"
    assert collective("h200", "all_reduce", "bf16", 8, 256).choice["protocol"] == "LL"


def test_predictions_without_measurements_have_a_note() -> None:
    assert "norm was not measured" in stream("norm", "h200", 8, 8192).fitted.note
    assert "by the data sheet" in copy("h200", "d2h", 1 << 20).fitted.note
    assert stream("elementwise", "h200", 8, 8192).fitted.note == ""
    assert quantize("h200", 8, 8192).fitted.note == ""
    for name, ask in (("softmax", softmax), ("embedding", embedding), ("sampling", sampling)):
        assert f"{name} was not measured" in ask("h200", 8, 8192).fitted.note
    assert "all-to-all of two GPUs" in predict_send("h200", 1 << 20).fitted.note


def test_each_stream_moves_its_own_bytes() -> None:
    """Long streams take as long as their bytes: softmax reads and writes two bytes per element,
    sampling only reads two, and quantising writes one.
    """
    both, less, least = (ask("h200", 1 << 16, 8192).us for ask in (softmax, quantize, sampling))
    assert less / both == pytest.approx(3 / 4, rel=0.05)
    assert least / both == pytest.approx(2 / 4, rel=0.05)


@pytest.mark.parametrize("board", BOARDS)
def test_a_copy_on_the_board_is_as_fast_as_the_measured_stream(board: str) -> None:
    """The stream reads two bytes and writes one per element; a copy reads and writes two."""
    measured, found = quantize(board, 1 << 18, 8192), copy(board, "d2d", 1 << 32)
    assert found.us / measured.us == pytest.approx(4 / 3, rel=0.04)


def test_a_send_takes_its_bytes_over_the_link() -> None:
    large = predict_send("h200", 1 << 28)
    assert 0.5 < large.shape["bytes"] / large.us / 1e3 / 450 < 1.1


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda: attention("h200", batch=1, query=7, context=9, **LLAMA),
            "query must be 1 or equal to the",
        ),
        (
            lambda: attention(
                "h200", batch=1, query=1, context=9, heads=5, kv_heads=2, head_dim=64
            ),
            "heads must be a multiple",
        ),
        (lambda: attention("h200", **SDXL | {"window": 9}), "and no window"),
        (
            lambda: latent.predict("h200", batch=1, query=7, context=9, heads=1),
            "query must be 1 or equal to the context",
        ),
        (lambda: collective("h200", "all_reduce", "bf16", 9, 1), "2 to 8 GPUs"),
        (lambda: collective("h200", "all_reduce", "fp8", 8, 1), "not with fp8"),
        (lambda: collective("h200", "scan", "bf16", 8, 1), "no collective 'scan'"),
        (lambda: moe("h200", tokens=1, **MIXTRAL, ranks=3), "multiple of the number of ranks"),
        (lambda: moe("h200", tokens=1, **MIXTRAL, distribution="zipf"), "neither 'balanced' nor"),
        (lambda: copy("h200", "p2p", 1), "no direction 'p2p'"),
        (lambda: copy("h200", "h2d", 0), "bytes must be at least 1"),
    ],
)
def test_what_cannot_be_predicted_is_named(ask, said: str) -> None:
    with pytest.raises(BadShape, match=said):
        ask()


def test_a_board_without_fitted_parameters_is_named() -> None:
    with pytest.raises(
        UnknownModel, match=r"no parameters were fitted for moe on l40s \(bf16\); there are"
    ):
        moe("l40s", tokens=1, **MIXTRAL)
