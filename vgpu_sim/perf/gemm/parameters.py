"""The parameters of the GEMM model: each one's name, unit, start value, bounds and meaning."""

from typing import Final

from vgpu_sim.perf.parameters import Parameter

_P = Parameter

PARAMETERS: Final = (
    _P("launch", "us", 2.2, 0.5, 8.0, "stream to first CTA, and the drain after the last"),
    _P("prologue", "us", 0.5, 0.05, 4.0, "filling the pipeline: the first round trip to DRAM"),
    _P("issue", "1", 0.85, 0.3, 1.25, "share of the data sheet's tensor rate in the main loop"),
    _P("edge", "elements", 40, 1.0, 400, "loss at a tile's edges: 1 + edge (1/bm + 1/bn) / 4"),
    _P("fill", "B/clk/SM", 45, 8.0, 400, "rate from L2 into shared memory"),
    _P("latency", "us", 0.55, 0.05, 3.0, "load to use of one step of k"),
    _P("stages", "1", 6.0, 1.5, 16.0, "deepest pipeline that kernels have"),
    _P("epilogue", "us", 0.35, 0.02, 4.0, "fixed cost of a tile's end"),
    _P("store", "B/clk/SM", 30, 4.0, 300, "rate at which a tile is stored"),
    _P("reduce", "us", 1.5, 0.1, 8.0, "joining the parts of a split k: a second kernel"),
    _P("workspace", "x DRAM", 1.0, 0.05, 8.0, "rate of the split's fp32 workspace"),
    _P("overlap", "1", 4.0, 1.2, 20.0, "norm of overlapping parts: large is perfect overlap"),
    _P("throttle", "1", 0.25, 0.01, 2.0, "clocks lost a unit of tensor use above the knee"),
    _P("knee", "1", 0.55, 0.05, 0.95, "tensor use at which power begins to lower clocks"),
    _P("long", "1", 0.2, 0.001, 5.0, "how much more in kernels longer than a millisecond"),
    _P("dram", "1", 0.88, 0.4, 1.1, "share of the data sheet's DRAM rate"),
    _P("ramp", "MB", 6.0, 0.1, 60.0, "bytes until DRAM is at its rate, at 4.8 TB/s"),
    _P("refetch", "1", 1.0, 0.2, 20.0, "tiles fetched again when a wave outgrows L2"),
    _P("l2_usable", "1", 0.5, 0.05, 2.0, "share of L2 that keeps operands between calls"),
    _P("l2_sharpness", "1", 3.0, 0.7, 12.0, "how suddenly operands fall out of L2"),
    _P("l2_rate", "B/clk/SM", 30, 5.0, 200, "rate of L2 over the whole chip"),
    _P("copies", "1", 6.0, 1.0, 16.0, "copies of the weights that the measurement went round"),
)
# Blackwell's accumulators are in tensor memory: this share of an epilogue is not hidden.
EXPOSED_EPILOGUE: Final = 0.25
