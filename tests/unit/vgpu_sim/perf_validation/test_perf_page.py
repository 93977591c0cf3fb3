"""The page of a run: points below their roofs, and the note about kernels without a point."""

from xml.etree import ElementTree

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
    one, other = estimate_of(copy()), estimate_of(PAIRS["four chains and one"][0])
    shown = [
        PlottedKernel("copy<&>", 2, 2 * one.us, one),
        PlottedKernel("chains", 1, other.us, other),
        PlottedKernel("unseen", 1, 5.0, None),
    ]
    text = write_html("run", figures(H100, shown), ["first line", "a < b"])
    assert text == write_html("run", figures(H100, shown), ["first line", "a < b"])
    body = text[text.index("<main>") : text.index("</body>")]
    root = ElementTree.fromstring(body)
    words = " ".join(word for plot in root.iter("svg") for word in plot.itertext())
    assert all(said in words for said in ("3350 GB/s", "fp32", "launch", "latency not hidden"))
    cells = ["".join(cell.itertext()) for cell in root.iter("td")]
    assert {"copy<&>", "chains", "unseen", "not sampled", f"{2 * one.us:.2f}"} <= set(cells)
    # A copy computes nothing: it has bars, but no point below the roofs.
    number = cells[cells.index("copy<&>") + 1]
    assert f"and so not in the plot: {number}." in text
    assert "a &lt; b" in text


def test_a_run_without_kernels_has_a_page_too() -> None:
    assert figures(H100, []) == []
    text = write_html("run", [], ["no context ended"])
    assert "<section>" not in text
    assert "no context ended" in text
