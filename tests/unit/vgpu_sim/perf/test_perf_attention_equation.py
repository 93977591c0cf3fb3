"""Attention's equation (docs/performance-model.md) for one call and one kernel, with counted
tiles.
"""

from math import ceil

import numpy as np
import pytest

from support.worlds.paper_board import (
    AMPERE,
    BLACKWELL,
    CLOCKS,
    DRAM,
    FLOP,
    HOPPER,
    L2,
    SMS,
    beside,
    values,
)
from vgpu_sim.perf.attention import Calls, Model, latent
from vgpu_sim.perf.attention.geometry import (
    AMPERE_CONTEXT,
    BLACKWELL_CONTEXT,
    CONTEXT,
    GENERATION,
    Kernel,
    is_tiled,
    prompt_kernels_of,
)
from vgpu_sim.perf.attention.parameters import PARAMETERS
from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape

NAMES = ("batch", "query", "context", "heads", "kv_heads", "head_dim", "window", "kv_bytes")


def calls(*sizes: int, width: int | None = None, causal: bool = True) -> Calls:
    fields = {name: np.array([size]) for name, size in zip(NAMES, sizes, strict=True)}
    return Calls(**fields, kv_width=None if width is None else np.array([width]), causal=causal)


def tiles_of(rows: int, query: int, context: int, window: int, causal: bool) -> list[int]:
    """Return the number of 128-key tiles that each tile of ``rows`` queries reads."""
    found = []
    for first in range(0, query, rows):
        seen: set[int] = set()
        for at in range(first, min(first + rows, query)):
            last = context - query + at if causal else context - 1
            begin = max(0, last - window + 1) if window and causal else 0
            seen |= set(range(begin // 128, last // 128 + 1))
        found.append(len(seen))
    return found


def attention(board: Board, one: dict, kernel: Kernel, p: dict) -> dict[str, float]:
    """Return the causes of one call's time by one kernel."""
    batch, query, context = one["batch"], one["query"], one["context"]
    heads, kv_heads, dim = one["heads"], one["kv_heads"], one["head_dim"]
    window, width, generation = one["window"], one["width"], one["generation"]
    group = heads // kv_heads
    if kernel.packed:
        at_once = max(1, kernel.rows // group)
        ctas, longest_of = kv_heads, tiles_of(at_once, query, context, window, one["causal"])
        if generation:  # all queries of a group belong to one token
            longest_of = tiles_of(1, 1, context, window, True) * ceil(group / kernel.rows)
    else:
        ctas, longest_of = heads, tiles_of(kernel.rows, query, context, window, one["causal"])
    tiles = batch * ctas * sum(longest_of)
    longest = ceil(max(longest_of) / kernel.splits)
    ctas = batch * ctas * len(longest_of) * kernel.splits
    a_sm = ctas / SMS
    tokens, kv_bytes = batch * query, one["kv_bytes"]
    seen = min(context, window) if window and generation else context
    read = tokens * heads * dim * 4 + batch * seen * kv_heads * width * kv_bytes
    written = tokens * kv_heads * width * (2 + kv_bytes)

    rate = FLOP / SMS * p["issue"]
    math = 4 * kernel.rows * 128 * (ceil(dim / 32) * 32) / rate
    softmax = kernel.rows * 128 / (16 * CLOCKS) * p["softmax"]
    fill = 128 * width * kv_bytes / (p["fill"] * CLOCKS)
    tile = beside(max(math, softmax), fill, p["overlap"]) + p["exposed"] * min(math, softmax)

    busiest = tiles / ctas * ceil(a_sm) if generation else max(tiles / SMS, longest)
    rounds = max(1, ceil(a_sm) / p["resident"])
    extra = 0.0
    if window and context > window and generation:
        extra = p["window_64"] if dim <= 64 else p["window"]
    busy = (busiest + extra * ceil(a_sm)) * tile
    loop = beside(busy, (longest + extra) * p["latency"] * rounds, p["overlap"])
    kind = p["single"] if group == 1 else p["wide"] if group > 32 else 1
    start = (p["start"] + p["dimension"] * dim / 128) * (p["static"] if batch > 992 else 1)
    loop, starts = loop * kind, start * rounds * kind
    usable = p["l2_usable"] * L2
    hot = 1 / (1 + (read / usable) ** p["l2_sharpness"])
    moved = read + extra * batch * kv_heads * width * kv_bytes * 128
    dram = p["dram"] * DRAM
    memory = moved * (1 - hot) / dram + moved * hot / (p["l2_rate"] * CLOCKS * SMS)
    body = beside(loop + starts, memory, p["memory_overlap"])
    flop = 4 * tiles * kernel.rows * 128 * dim
    used = min(1, flop / FLOP / body)
    of_sm = min(32, 2048 / min(512, kv_heads * width / 2))
    inserts = p["insert"] * ceil(tokens / of_sm / SMS)
    cache = beside(p["cache"] * written / dram, inserts, p["overlap"]) if one["causal"] else 0
    partial = tokens * heads * dim * 8 * kernel.splits / (p["workspace"] * DRAM)
    useful = min(flop / FLOP, loop)
    return {
        "launch": p["launch"],
        "math": useful,
        "softmax, fill and latency": loop - useful,
        "starts of CTAs": starts,
        "memory not hidden": body - loop - starts,
        "clock throttle": body * p["throttle"] * max(0, used - p["knee"]),
        "write of the cache": cache + p["sequence"] * batch,
        "combining split keys": p["combine"] + partial if kernel.splits > 1 else 0,
    }


# batch, query, context, heads, kv_heads, head_dim, window, bytes
PROMPTS = [
    (4, 2048, 2048, 16, 2, 128, 0, 2),
    (1, 300, 300, 8, 8, 64, 0, 2),
    (3, 700, 700, 6, 3, 96, 200, 1),
    (2, 512, 512, 4, 2, 97, 0, 2),
    (2, 512, 512, 4, 2, 192, 0, 2),
    (1000, 64, 64, 64, 1, 72, 0, 2),
]
TOKENS = [
    (1, 1, 65536, 16, 2, 128, 0, 2),
    (64, 1, 4096, 16, 2, 128, 128, 2),
    (64, 1, 4096, 8, 8, 64, 129, 1),
    (993, 1, 100, 33, 1, 128, 100, 2),
    (992, 1, 100, 32, 1, 80, 101, 2),
    (2, 1, 1, 1, 1, 64, 1, 2),
]


def check(board: Board, sizes: tuple[int, ...], p: dict, *, causal: bool = True) -> None:
    one = dict(zip(NAMES, sizes, strict=True)) | {"causal": causal}
    one |= {"width": 2 * one["head_dim"], "generation": sizes[1] == 1 and causal}
    model = Model(board, calls(*sizes, causal=causal), generation=one["generation"])
    row = np.array([0])
    times = []
    for at, kernel in enumerate(model.kernels):
        on_hopper = board is HOPPER and not one["generation"]
        if on_hopper and not is_tiled(kernel.rows, one["head_dim"]):
            continue
        expected = sum(attention(board, one, kernel, p).values())
        assert model.times(p, row, np.array([at]))[0] == pytest.approx(expected), kernel
        times.append((expected, at))
    best = min(times)[1]
    assert list(model.choose(p, row)) == [best]
    expected = attention(board, one, model.kernels[best], p)
    assert model.stack(p, row).at(0) == pytest.approx(expected)
    known = [max(size, 0.5) for size in sizes[:-1]]
    assert np.exp(model.sizes(row)[0]) == pytest.approx(known)


# Chosen so that throttle, a hot cache and overlaps all have an effect.
P = values(PARAMETERS, knee=0.05, throttle=0.7, l2_usable=2.0, single=1.3, wide=1.6)


@pytest.mark.parametrize("board", [HOPPER, BLACKWELL, AMPERE], ids=lambda b: b.architecture)
@pytest.mark.parametrize("sizes", PROMPTS)
def test_a_prompt(board: Board, sizes: tuple[int, ...]) -> None:
    check(board, sizes, P)


@pytest.mark.parametrize("sizes", TOKENS)
def test_a_token(sizes: tuple[int, ...]) -> None:
    check(HOPPER, sizes, P)


@pytest.mark.parametrize("sizes", [(2, 4096, 77, 10, 10, 64, 0, 2), (1, 200, 900, 3, 3, 72, 0, 2)])
def test_an_encoder(sizes: tuple[int, ...]) -> None:
    check(AMPERE, sizes, P, causal=False)


@pytest.mark.parametrize(
    ("dim", "rows"), [(64, [192]), (96, [192]), (97, [128]), (128, [128]), (129, [64, 128])]
)
def test_the_tiles_that_flash_attention_3_has_for_heads_of_a_size(
    dim: int, rows: list[int]
) -> None:
    assert [r for r in (64, 128, 192) if is_tiled(np.array(r), np.array(dim))] == rows


def test_the_kernels_of_each_generation() -> None:
    assert [(k.rows, k.packed, k.splits) for k in CONTEXT] == [
        (rows, packed, 1) for rows in (64, 128, 192) for packed in (False, True)
    ]
    assert [(k.rows, k.packed) for k in BLACKWELL_CONTEXT] == [(128, False), (256, False)]
    assert [(k.rows, k.packed) for k in AMPERE_CONTEXT] == [(64, False)]
    assert [(k.rows, k.packed, k.splits) for k in GENERATION] == [
        (64, True, 1 << power) for power in range(7)
    ]
    kernels = [prompt_kernels_of(board) for board in (HOPPER, BLACKWELL, AMPERE)]
    assert kernels == [CONTEXT, BLACKWELL_CONTEXT, AMPERE_CONTEXT]


def test_a_token_of_latent_attention_has_one_head_of_576_and_a_prompt_heads_of_192_and_128() -> (
    None
):
    sizes = [np.array([x]) for x in (3, 1, 500, 16)]
    token = latent.calls(*sizes, generation=True)
    fields = ("heads", "kv_heads", "head_dim", "window", "kv_bytes", "kv_width")
    assert [getattr(token, name)[0] for name in fields] == [16, 1, 544, 0, 2, 576]
    assert token.cached[0, 0] == 576
    sizes[1] = sizes[2]
    prompt = latent.calls(*sizes, generation=False)
    assert [getattr(prompt, name)[0] for name in fields[:-1]] == [16, 16, 160, 0, 2]
    assert prompt.cached[0, 0] == 320
    found = latent.predict("h200", batch=3, query=1, context=500, heads=16)
    assert found.rates["GB/s of operands"] * found.us == pytest.approx(2 * 3 * 500 * 576 / 1e3)
    found = latent.predict("h200", batch=3, query=500, context=500, heads=16)
    assert found.rates["GB/s of operands"] * found.us == pytest.approx(2 * 3 * 500 * 320 * 16 / 1e3)


@pytest.mark.parametrize("name", NAMES[:6])
def test_no_size_is_below_one(name: str) -> None:
    usual = dict.fromkeys(NAMES, 1)
    calls(*usual.values())
    with pytest.raises(BadShape, match=f"^{name} must be at least 1$"):
        calls(*(usual | {name: 0}).values())


def test_more_queries_than_tokens_have_no_order_and_encoders_need_none() -> None:
    calls(1, 9, 9, 1, 1, 64, 0, 2)
    with pytest.raises(BadShape, match="more queries than the context has tokens"):
        calls(1, 10, 9, 1, 1, 64, 0, 2)
    calls(1, 10, 9, 1, 1, 64, 0, 2, causal=False)
    with pytest.raises(BadShape, match="multiple of kv-heads"):
        calls(1, 9, 9, 3, 2, 64, 0, 2)
