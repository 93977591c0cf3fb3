"""The drawings on the page of a run, for kernels with round figures: each line, point, bar and
row.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vgpu_sim.perf import plots
from vgpu_sim.perf.kernels import page as drawing
from vgpu_sim.perf.kernels.page import PlottedKernel, page, roofs
from vgpu_sim.perf.kernels.pipes import Pipe


class Axes:
    """Records the drawing calls on it, by name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **named: self.calls.append((name, values, named))

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(values, named) for called, values, named in self.calls if called == name]


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
    found = drawing._point(make_shown("it", 40.0, flop, moved, {}))
    assert found == (None if place is None else pytest.approx(place))
    assert drawing._point(PlottedKernel("it", 1, 1.0, None)) is None


@pytest.mark.parametrize(
    ("points", "low", "high"),
    [
        ({}, 0.025, 400),  # from half of 0.05 to four times the farthest ridge
        ({"1": (0.01, 5.0), "2": (300.0, 1.0)}, 0.005, 1200),
        ({"1": (20.0, 5.0)}, 0.025, 400),
    ],
)
def test_roofs_are_drawn_from_before_the_first_to_beyond_the_last_point(
    points: dict[str, tuple[float, float]], low: float, high: float
) -> None:
    axes = Axes()
    drawing._roofline(axes, chip(), [ONE, TWO], points)
    lines = axes.of("plot")
    for ((at, roof), named), (name, top) in zip(
        lines[:2], [("fp32 640 Gflop/s", 640), ("bf16 tensor 1e+05 Gflop/s", 1e5)], strict=True
    ):
        assert (at[0], at[-1]) == pytest.approx((low, high))
        assert len(at) == 200
        assert roof == pytest.approx(np.minimum(at * 1000, top))
        assert named["label"] == name
    assert [values[:2] for values, _ in lines[2:]] == [([x], [y]) for x, y in points.values()]
    assert [values for values, _ in axes.of("annotate")] == list(points.items())
    assert axes.of("set_title") == [(("DRAM 1000 GB/s",), {})]
    for name in ("set_xscale", "set_yscale"):
        assert axes.of(name) == [(("log",), {})]


def test_bars_are_shares_of_causes_on_top_of_one_another() -> None:
    axes, below = Axes(), []

    def bar(labels: list[str], share: Any, *, bottom: Any, label: str, width: float) -> None:
        assert labels == ["1", "2"]
        assert 0 < width < 1
        below.append((label, list(share), list(bottom)))

    axes.bar = bar  # type: ignore[method-assign]
    drawing._causes(axes, {"1": ONE, "2": TWO})
    assert below == [
        ("launch", [25, 0], [0, 0]),
        ("memory", [75, 50], [25, 0]),
        ("math", [0, 50], [100, 50]),
    ]


def test_the_longest_kernels_have_numbers_and_every_one_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most 24 kernels are drawn; the page states which of them have no point below the roofs."""
    drawn: list[list[Axes]] = []

    def side_by_side(*draw: Any) -> str:
        drawn.append([Axes() for _ in draw])
        for axes, one in zip(drawn[-1], draw, strict=True):
            one(axes)
        return "<svg/>"

    monkeypatch.setattr(plots, "side_by_side", side_by_side)
    many = [make_shown(f"k{n}", 100.0 + n, 8.0 * (n != 3), 1.0, {"math": 1.0}) for n in range(25)]
    text = page(chip(), [PlottedKernel("dark", 0, 7.0, None), *many], ["a < b"])
    ((roofline, causes),) = drawn
    # Of 25 kernels the longest is number 1, k3 has no operations, and the shortest, k0, is not
    # drawn.
    assert [values[0] for values, _ in roofline.of("annotate")] == [
        str(n) for n in range(1, 25) if n != 22
    ]
    (((labels, _), _),) = causes.of("bar")
    assert labels == [str(n) for n in range(1, 25)]
    assert "and so not in the plot: 22.</p>" in text
    rows = text.split("<tr>")[1:]
    assert rows[0].startswith("<th>kernel</th><th></th><th>launches</th>")
    cells = [row.split("</tr>")[0].removeprefix("<td>").split("</td><td>") for row in rows[1:]]
    assert cells[0] == ["k24", "1", "2", "124.00", "62.00", "memory &amp; more</td>"]
    assert [row[1] for row in cells[23:]] == ["24", "-", "-"]
    assert cells[25] == ["dark", "-", "0", "7.00", "7.00", "not sampled</td>"]
    assert "<pre>a &lt; b</pre>" in text
    assert "a board (10 multiprocessors)" in text
