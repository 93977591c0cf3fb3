"""The parameters of the model of mixtures of experts: each one's name, unit, start value, bounds
and meaning.
"""

from typing import Final

from vgpu_sim.perf.parameters import Parameter

_P = Parameter
PARAMETERS: Final = (
    _P("launch", "us", 15.0, 2.0, 150, "launches of the operation's kernels, and their drains"),
    _P("issue", "1", 0.7, 0.1, 1.3, "share of the data sheet's tensor rate in the main loop"),
    _P("fill", "B/clk/SM", 60, 4.0, 300, "rate from L2 into shared memory"),
    _P("latency", "us", 0.12, 0.005, 3.0, "one step of k when nothing hides it"),
    _P("epilogue", "us", 1.0, 0.02, 20.0, "a tile's end"),
    _P("dram", "1", 0.85, 0.2, 1.1, "share of the data sheet's DRAM rate"),
    _P("overlap", "1", 3.0, 1.1, 15.0, "norm of overlapping parts"),
    _P("resident", "CTAs/SM", 2.0, 0.8, 6.0, "CTAs that an SM has at a time"),
    _P("throttle", "1", 0.2, 0.001, 2.0, "clocks lost a unit of tensor use above the knee"),
    _P("knee", "1", 0.5, 0.05, 0.95, "tensor use at which power begins to lower clocks"),
    _P("permute", "1", 3.0, 0.05, 40.0, "passes over the rank's pairs: gather, activate, scatter"),
    _P("permute_all", "1", 0.5, 0.005, 40.0, "passes over the pairs of all ranks"),
    _P("empty", "us", 0.3, 0.002, 10.0, "a CTA of another rank's expert: it writes zeros"),
    _P("token", "ns", 2.0, 0.01, 100, "routing a token"),
    _P("expert", "us", 0.02, 0.0005, 1.0, "an active expert's own cost"),
    _P("sort", "us", 3.0, 0.01, 60.0, "sorting pairs that one CTA cannot: more than 4096"),
    _P("skew", "1", 1.0, 0.3, 3.0, "tiles of a power law, against those that are counted"),
    _P("l2_usable", "1", 0.5, 0.05, 2.0, "share of L2 that keeps operands between calls"),
    _P("unaligned", "1", 2.0, 1.01, 30.0, "main loop of widths that are no multiple of 16"),
    _P("ramp", "MB", 3.0, 0.1, 60.0, "bytes until DRAM is at its rate, at 4.8 TB/s"),
)
