"""The drawings on the page of a run, for kernels with round figures: each line, point, bar and
row.
"""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from vgpu_sim.perf.kernels.page import PlottedKernel, figures, point_of, roofs
from vgpu_sim.perf.kernels.pipes import Pipe


def chip() -> Any:
    """10 of 20 SMs at 2 GHz: 1000 GB/s, fp32 at 10 x 16 x 2 x 2 Gflop/s."""
    tensors = {"fp16": 100.0, "bf16": 200.0, "tf32": 50.0}
    board = SimpleNamespace(
        sms=SimpleNamespace(value=20),
        product="a board",
        tensor_tflops={name: SimpleNamespace(value=rate) for name, rate in tensors.items()},
    )
    lanes = {Pipe.FMA: 16, Pipe.FP16: 8}
    return SimpleNamespace(sms=10, ghz=2.0, dram_peak=1e6, lanes=lanes, board=board)


def make_shown(
    name: str, us: float, flop: float, moved: float, causes: dict[str, float], **counts: int
) -> PlottedKernel:
    """Return a kernel that was launched twice, whose single launch takes half of ``us``."""
    used = dict.fromkeys(("pipe_fp16", "tensor_fp16", "tensor_bf16", "tensor_tf32"), 0) | counts
    estimate: Any = SimpleNamespace(
        counts=SimpleNamespace(blocks=4, flop=flop, **used),
        times=SimpleNamespace(traffic=SimpleNamespace(dram=moved)),
        us=us / 2,
        stack=causes,
        bound_by="memory & more",
    )
    return PlottedKernel(name, 2, us, estimate)


ONE = make_shown("one", 40.0, 500.0, 100.0, {"launch": 1.0, "memory": 3.0})
TWO = make_shown("two", 60.0, 3000.0, 4000.0, {"memory": 2.0, "math": 2.0}, tensor_bf16=1)


def test_roofs_are_of_the_types_that_some_kernel_uses() -> None:
    """Pairs of halves count four operations; tensor cores have the slice's share of their rate."""
    assert roofs(chip(), [ONE]) == {"fp32": 640}
    assert roofs(chip(), [ONE, TWO]) == {"fp32": 640, "bf16 tensor": 100_000}
    every = make_shown("all", 1.0, 1.0, 1.0, {}, pipe_fp16=1, tensor_fp16=1, tensor_tf32=1)
    assert roofs(chip(), [every]) == {
        "fp32": 640,
        "fp16": 640,
        "fp16 tensor": 50_000,
        "tf32 tensor": 25_000,
    }


@pytest.mark.parametrize(
    ("flop", "moved", "place"),
    [(500.0, 100.0, (20, 0.1)), (0.0, 100.0, None), (500.0, 0.0, None), (1.0, 1.0, (4, 0.0002))],
)
def test_a_point_is_operations_a_byte_and_a_nanosecond(
    flop: float, moved: float, place: tuple[float, float] | None
) -> None:
    """The kernel has four blocks and takes 20 us."""
    found = point_of(make_shown("it", 40.0, flop, moved, {}))
    assert (found is None) == (place is None)
    if found is not None and place is not None:
        assert (found.intensity, found.rate) == pytest.approx(place)
    assert point_of(PlottedKernel("it", 1, 1.0, None)) is None


def test_the_longest_kernels_have_bars_and_every_one_a_row() -> None:
    """At most 24 kernels are drawn; the page states which of them have no point below the roofs."""
    many = [make_shown(f"k{n}", 100.0 + n, 8.0 * (n != 3), 1.0, {"math": 1.0}) for n in range(25)]
    found = figures(chip(), [PlottedKernel("dark", 0, 7.0, None), *many])
    causes, roofline = found
    # Of 25 kernels the longest is number 1, k3 has no operations, and the shortest, k0, is not
    # drawn.
    bars = str(causes.drawing)
    assert ">1 k24<" in bars
    assert ">24 k1<" in bars
    assert "k0<" not in bars
    assert "and so not in the plot: 22." in str(roofline.more[0])
    assert str(roofline.drawing).count("<circle") == 2 * 23  # a point, and its entry in the key
    rows = str(causes.more[0]).split("<tr>")[2:]
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert cells[0] == ["k24", "1", "2", "124.00", "62.00", "memory &amp; more"]
    assert [row[1] for row in cells[23:]] == ["24", "-", "-"]
    assert cells[25] == ["dark", "-", "0", "7.00", "7.00", "not sampled"]
