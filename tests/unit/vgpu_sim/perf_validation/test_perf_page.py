"""The page of a run: points below their roofs, and the note about kernels without a point."""

import pytest

from drawing.documents import write_html
from support.kernels.sampled_kernels import predict
from support.kernels.textbook_kernels import PAIRS, copy
from vgpu_sim.perf.kernels import Estimate, chip_of
from vgpu_sim.perf.kernels.page import PlottedKernel, figures, roofs

H100 = chip_of("h100-80gb")


def estimate_of(variant) -> Estimate:
    return predict(
        *(H100, variant.source, variant.buffers, variant.numbers),
        grid=variant.grid,
        block=variant.block,
    )


def test_roofs_are_the_slices_peaks_and_of_types_that_kernels_use() -> None:
    whole = roofs(H100, [])
    assert whole == {"fp32": pytest.approx(66.9e3, rel=1e-3)}
    half = chip_of("h100-80gb", 66, (1, 2))
    assert roofs(half, []) == {"fp32": pytest.approx(whole["fp32"] / 2)}


@pytest.mark.parametrize("name", ["four chains and one", "four results a thread and one"])
def test_no_textbook_kernel_is_above_its_roof(name: str) -> None:
    for variant in PAIRS[name]:
        one = estimate_of(variant)
        flop = one.counts.blocks * one.counts.flop
        tops = roofs(H100, [PlottedKernel("it", 1, one.us, one)])
        assert 0 < flop / one.us / 1e3 <= max(tops.values())
        assert flop / one.us <= flop / one.times.traffic.dram * H100.dram_peak


def test_the_page_has_roofs_causes_and_every_kernel() -> None:
    one = estimate_of(copy())
    shown = [PlottedKernel("copy<&>", 2, 2 * one.us, one), PlottedKernel("unseen", 1, 5.0, None)]
    text = write_html("run", figures(H100, shown), ["first line", "a < b"])
    assert text == write_html("run", figures(H100, shown), ["first line", "a < b"])
    words = ("copy&lt;&amp;&gt;", "unseen", "not sampled", f"{2 * one.us:.2f}", "a &lt; b")
    assert [word for word in words if word not in text] == []
    assert "copy<&>" not in text


def test_a_run_without_kernels_has_a_page_too() -> None:
    assert "no context ended" in write_html("run", figures(H100, []), ["no context ended"])
