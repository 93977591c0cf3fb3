"""The equations of docs/performance-model.md, implemented independently for single numbers.

The models compute whole arrays of calls and kernels; here each equation computes one call and
one kernel, on a board with round figures and parameters that all differ: a term that is missing,
added twice or exchanged changes a cause.
"""

from math import ceil, exp, floor, sqrt

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
    PCIE,
    SMS,
    beside,
    values,
)
from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.collective.model import PROTOCOLS, Calls as Collectives, Model as Collective
from vgpu_sim.perf.collective.parameters import PARAMETERS as COLLECTIVE
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.gemm.candidates import Candidates
from vgpu_sim.perf.gemm.model import Model as Gemm, Shapes
from vgpu_sim.perf.gemm.parameters import PARAMETERS as GEMM
from vgpu_sim.perf.moe.loads import Calls as Mixtures
from vgpu_sim.perf.moe.model import Model as Mixture
from vgpu_sim.perf.moe.parameters import PARAMETERS as MOE
from vgpu_sim.perf.stream.model import Calls as Streams, Model as Stream

STREAMS = [(100, 1000, 2, 3), (1, 8192, 2, 2), (4096, 64, 4, 0), (40, 10, 2, 1)]


@pytest.mark.parametrize(("rows", "columns", "read", "written"), STREAMS)
def test_a_stream(rows: int, columns: int, read: int, written: int) -> None:
    p = {"launch": 2.5, "row": 1.1, "element": 0.7, "resident": 4.5, "dram": 0.8, "overlap": 3.3}
    p |= {"l2_usable": 0.45, "l2_sharpness": 2.7, "l2_rate": 21.0}
    moved = rows * columns * (read + written)
    hot = 1 / (1 + (moved / (0.45 * L2)) ** 2.7)
    memory = moved * (1 - hot) / (0.8 * DRAM) + moved * hot / (21 * CLOCKS * SMS)
    work = max(1, rows / SMS / 4.5) * (1.1 + 0.7e-3 * columns)
    calls = Streams(*(np.array([x]) for x in (rows, columns, read, written)))
    found = Stream(HOPPER, calls).stack(p, np.array([0])).at(0)
    expected = {"launch": 2.5, "memory": memory, "rows not hidden": -memory}
    expected["rows not hidden"] += beside(work, memory, 3.3)
    assert found == pytest.approx(expected)
    sizes = Stream(HOPPER, calls).sizes(np.array([0]))
    assert np.exp(sizes[0]) == pytest.approx([rows, columns])


def protocols(
    board: Board, op: str, gpus: int, size: int, element: int, p: dict[str, float]
) -> list[tuple[float, float]]:
    """Return start and wire time of each protocol."""
    ring = op == "all_reduce"
    steps = {"all_reduce": 2 * (gpus - 1), "alltoall": 1}.get(op, gpus - 1)
    moved = (2 if ring else 1) * (gpus - 1) / gpus * size
    kind = {"all_gather": p["gather"], "reduce_scatter": p["scatter"], "alltoall": p["exchange"]}
    link = board.link_gb_per_s.value * 1e3
    wire = moved * kind.get(op, 1) / link
    if board is PCIE:
        wire *= (gpus / 2) ** p["contention"]
    begin = p["exchange_start"] if op == "alltoall" else 1
    few = 1 if gpus >= 4 else p["pair"]
    ramp = p["simple_ramp"] * (1 - exp(-size / 3e7))
    base = p["base"]
    found = [
        ((base + p["ll_hop"] * steps) * begin, wire / (p["ll_rate"] * few)),
        (
            (base + p["ll128_start"] + p["ll128_hop"] * steps) * begin,
            wire / (p["ll128_rate"] * few),
        ),
        (
            (base + p["simple_start"] + p["simple_hop"] * steps) * begin + ramp,
            wire / p["simple_rate"],
        ),
    ]
    switches = board in (HOPPER, BLACKWELL) and gpus >= 4 and op != "alltoall"
    if switches and (element > 1 or op == "all_gather"):
        back = (1 + 1 / gpus if ring else (gpus - 1) / gpus) * size * kind.get(op, 1)
        found.append((base + p["nvls_start"], back / link / p["nvls_rate"]))
    return found


@pytest.mark.parametrize("board", [HOPPER, BLACKWELL, AMPERE, PCIE], ids=lambda b: b.architecture)
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "alltoall"])
@pytest.mark.parametrize(("gpus", "element"), [(2, 2), (3, 2), (4, 2), (8, 2), (8, 1)])
def test_a_collective(board: Board, op: str, gpus: int, element: int) -> None:
    p = values(COLLECTIVE, choice=11.0) | {"contention": 0.9}
    seen = set()
    for size in (256, 1 << 16, 1 << 21, 1 << 24, 1 << 30):
        calls = Collectives(*(np.array([x]) for x in (op, gpus, size, element)))
        model = Collective(board, calls)
        ways = protocols(board, op, gpus, size, element, p)
        times = [sum(way) for way in ways]
        total = sum(time**-11 for time in times) ** (-1 / 11)
        best = min(range(len(times)), key=times.__getitem__)
        seen.add(best)
        assert model.protocol(p) == [PROTOCOLS[best]]
        launch = min(p["base"], total)
        steps = min(ways[best][0], total) - launch
        found = model.stack(p, np.array([0])).at(0)
        assert found == pytest.approx(
            {
                "launch": launch,
                "protocol's steps": steps,
                "bytes on the wire": total - launch - steps,
            }
        )
    assert len(seen) > 1


def gemm(
    board: Board, size: float, m: int, n: int, k: int, kernel: tuple[int, int, int], p: dict
) -> dict[str, float]:
    """Return the causes of one product's time by one kernel, without a library's rules."""
    bm, bn, splits = kernel
    peak = FLOP * (2 if size == 1 else 1)
    flop_sm, vector = peak / SMS, bm == 1
    tiles = ceil(m / bm) * ceil(n / bn) * splits
    step_k = 128 / size
    steps, waves = ceil(k / step_k / splits), ceil(tiles / SMS)
    stage = (bm + bn) * 128
    shared = 228 * 1024
    resident = min(4, max(1, floor(shared / (4 * stage))))
    stages = min(p["stages"], max(2, shared / resident / stage))
    edges = 1 if vector else 1 + p["edge"] * (1 / bm + 1 / bn) / 4
    math = 2 * bm * bn * step_k / (flop_sm * p["issue"]) * edges
    step = beside(math, stage / (p["fill"] * CLOCKS), p["overlap"])
    end = p["epilogue"] + 2 * bm * bn / (p["store"] * CLOCKS)
    rounds = ceil(waves / resident)
    busy, ends = waves * steps * step, 0 if vector else rounds * end
    if board is BLACKWELL:
        busy, ends = waves * beside(steps * step, end / 4, p["overlap"]), end
    waits = ceil(steps / 32) if vector else steps / stages
    loop = beside(busy, rounds * waits * p["latency"], p["overlap"])
    a, b, c = m * k * size, k * n * size, 2 * m * n
    rows, columns = ceil(m / bm), ceil(n / bn)
    side = sqrt(min(rows * columns, SMS * resident))
    again = a * max(0, columns / side - 1) + b * max(0, rows / side - 1)
    moved = a + b + c + 0.2 * p["refetch"] * again / (1 + (L2 / (a + b)) ** 2)
    usable, sharp = p["l2_usable"] * L2, p["l2_sharpness"]
    hot_a = 1 / (1 + ((a + b + c) / usable) ** sharp)
    hot_b = 1 / (1 + ((a + p["copies"] * b + c) / usable) ** sharp)
    cold = moved - hot_a * (a + c) - hot_b * b
    ramp = p["ramp"] * 1e6 * DRAM / 4.8e6
    dram = cold / (p["dram"] * DRAM) + p["ramp"] / 4.8 * (1 - exp(-cold / (ramp + 1)))
    memory = beside(dram, moved / (p["l2_rate"] * CLOCKS * SMS), p["overlap"])
    body = beside(loop + ends, memory, p["overlap"])
    used = min(1, 2 * m * n * k / peak / body)
    throttle = p["throttle"] * max(0, used - p["knee"]) * (1 + p["long"] * body / (body + 1e3))
    useful = min(2 * m * n * k / peak, loop)
    waste = min(max(waves * steps * math - useful, 0), loop - useful)
    workspace = 4 * m * n * (splits + 1) / (p["workspace"] * DRAM)
    return {
        "launch": p["launch"],
        "prologue": p["prologue"],
        "math": useful,
        "tile and wave quantisation": waste,
        "fill and latency": loop - useful - waste,
        "epilogue": ends,
        "memory not hidden": body - loop - ends,
        "clock throttle": body * throttle,
        "split of k": p["reduce"] + workspace if splits > 1 else 0,
    }


@pytest.mark.parametrize("board", [HOPPER, BLACKWELL, AMPERE], ids=lambda b: b.architecture)
@pytest.mark.parametrize(
    ("m", "n", "k", "kernel"),
    [
        (4096, 4096, 4096, (128, 256, 1)),
        (2048, 8192, 65536, (128, 256, 1)),
        (64, 512, 16384, (64, 64, 4)),
        (300, 100, 1000, (32, 64, 2)),
        (1, 512, 2048, (1, 64, 1)),
        (16, 64, 130, (16, 64, 1)),
    ],
)
def test_a_product(
    board: Board, m: int, n: int, k: int, kernel: tuple[int, int, int], monkeypatch
) -> None:
    p = values(GEMM, throttle=0.4, knee=0.2)
    one = Candidates(*(np.array([[x]], float) for x in kernel))
    shapes = Shapes(*(np.array([x]) for x in (m, n, k)))
    for dtype in ("bf16", "fp8"):
        size = dtype_named(dtype).bytes
        expected = gemm(board, size, m, n, k, kernel, p)
        model = Gemm(board, dtype_named(dtype), p, "cublas")
        assert model.times(shapes, one)[0] == pytest.approx(sum(expected.values()))
        monkeypatch.setattr(Gemm, "kernels", lambda self, shapes: one)
        assert model.stack(shapes)[0].at(0) == pytest.approx(expected)
        monkeypatch.undo()
    assert np.exp(shapes.logs()[0]) == pytest.approx([m, n, k])


def product(n: float, k: float, rows: int, load: dict[str, float], p: dict, size: float) -> tuple:
    """Return the core time, the part of the memory time that it does not hide, and the throttle of
    one of a mixture's products.
    """
    tiles = load["tiles"] * (p["skew"] if load["skewed"] else 1)
    peak = FLOP * (2 if size == 1 else 1)
    steps, columns = ceil(k * size / 128), ceil(n / 128)
    waves = max(1, ceil(tiles * columns / SMS))
    rounds = max(1, waves / p["resident"])
    math = 2 * rows * 128 * 128 / size / (peak / SMS * p["issue"])
    step = beside(math, (rows + 128) * 128 / (p["fill"] * CLOCKS), p["overlap"])
    step *= 1 if load["inner"] % 16 == 0 else p["unaligned"]
    core = beside(waves * steps * step, rounds * steps * p["latency"], p["overlap"])
    core += rounds * p["epilogue"] + p["empty"] * load["others"] / rows * columns / SMS
    moved = load["active"] * n * k * size + load["pairs"] * (k * size + 2 * n)
    hot = 1 / (1 + (moved / (p["l2_usable"] * L2)) ** 3)
    memory = moved * (1 - 0.95 * hot) / (p["dram"] * DRAM)
    memory += p["ramp"] / 4.8 * (1 - exp(-moved / (p["ramp"] * 1e6)))
    body = beside(core, memory, p["overlap"])
    used = min(1, 2 * load["pairs"] * n * k / peak / body)
    return core, body - core, body * p["throttle"] * max(0, used - p["knee"])


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
@pytest.mark.parametrize(
    # Pairs of a rank: tokens x topk / ranks, equally many for each expert; one CTA sorts up to
    # 4096.
    ("tokens", "hidden", "inner", "topk", "experts", "ranks"),
    [
        (512, 1024, 2048, 8, 8, 1),
        (514, 1024, 2048, 8, 8, 1),
        (1024, 512, 1000, 4, 16, 4),
        (16, 300, 130, 1, 4, 2),
        (8192, 2048, 4096, 2, 4, 2),
    ],
)
def test_a_balanced_mixture(
    tokens: int,
    hidden: int,
    inner: int,
    topk: int,
    experts: int,
    ranks: int,
    dtype: str,
    gated: bool,
) -> None:
    p = values(MOE, knee=0.02, l2_usable=40.0, throttle=0.3)
    pairs = tokens * topk / ranks
    active = experts // ranks
    load = {"pairs": pairs, "active": active, "skewed": 0, "inner": inner}
    load["others"] = tokens * topk * (1 - 1 / ranks)
    size = dtype_named(dtype).bytes
    passes = p["permute"] * pairs + p["permute_all"] * tokens * topk
    permute = passes * (4 * hidden + 6 * inner) / (p["dram"] * DRAM)
    permute += p["token"] * 1e-3 * tokens + p["expert"] * active + p["sort"] * (pairs > 4096)
    kernels = {}
    for rows in (16, 32, 64, 128):
        load["tiles"] = active * ceil(pairs / active / rows)
        up = product(inner * (2 if gated else 1), hidden, rows, load, p, size)
        down = product(hidden, inner, rows, load, p, size)
        kernels[rows] = up, down
    up, down = min(kernels.values(), key=lambda two: sum(map(sum, two)))
    numbers = (tokens, hidden, inner, topk, experts, ranks)
    calls = Mixtures(*(np.array([x]) for x in numbers), np.array(["balanced"]), np.array([gated]))
    model = Mixture(HOPPER, dtype_named(dtype), calls)
    expected = {
        "launch": p["launch"],
        "up: products": up[0],
        "up: memory not hidden": up[1],
        "down: products": down[0],
        "down: memory not hidden": down[1],
        "clock throttle": up[2] + down[2],
        "routing and permutation": permute,
    }
    row = np.array([0])
    assert model.stack(p, row).at(0) == pytest.approx(expected)
    assert model.times(p, row, model.choose(p, row))[0] == pytest.approx(sum(expected.values()))
    assert model.sizes(row)[0] == pytest.approx([*np.log(numbers), 0])


def test_a_power_law_has_tiles_of_its_own_cost() -> None:
    """Only ``skew`` distinguishes the two if each expert has equally many pairs."""
    p = values(MOE)
    numbers = (np.array([x, x]) for x in (4096, 1024, 1024, 1, 1, 1))
    calls = Mixtures(*numbers, np.array(["balanced", "power_law_1.2"]), np.array([True, True]))
    model, rows = Mixture(HOPPER, dtype_named("bf16"), calls), np.array([0, 1])
    level, skewed = model.times(p | {"skew": 2.5}, rows, np.array([3, 3]))
    assert skewed > 1.5 * level
    same = model.times(p | {"skew": 1.0}, rows, np.array([3, 3]))
    assert same[0] == same[1] == level
    assert list(model.sizes(rows)[:, -1]) == [0, 1]
