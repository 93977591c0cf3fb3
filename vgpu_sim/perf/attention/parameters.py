"""The parameters of the attention model: each one's name, unit, start value, bounds and meaning."""

from typing import Final

from vgpu_sim.perf.parameters import Parameter

_P = Parameter
PARAMETERS: Final = (
    _P("launch", "us", 8.0, 1.0, 60.0, "launches of the operation's kernels, and their drains"),
    _P("issue", "1", 0.75, 0.1, 1.3, "share of the data sheet's tensor rate in the main loop"),
    _P("softmax", "1", 1.0, 0.05, 8.0, "exponentials, in units of 16 a clock and SM"),
    _P("fill", "B/clk/SM", 60, 4.0, 300, "rate from L2 into shared memory"),
    _P("latency", "us", 0.15, 0.005, 3.0, "one tile of keys when nothing hides it"),
    _P("start", "us", 1.5, 0.05, 20.0, "a CTA's start, its queries, and its end"),
    _P("dimension", "us", 0.5, 0.005, 10.0, "more of that for 128 elements a head"),
    _P("static", "1", 0.7, 0.2, 2.0, "share of a start where sequences are too many to schedule"),
    _P("window", "tiles", 0.5, 0.02, 8.0, "tiles of keys read beside a window, heads of 128 up"),
    _P("window_64", "tiles", 1.0, 0.02, 12.0, "the same for heads of 64"),
    _P("dram", "1", 0.85, 0.2, 1.1, "share of the data sheet's DRAM rate"),
    _P("overlap", "1", 3.0, 1.1, 15.0, "norm of the parts of the main loop"),
    _P("memory_overlap", "1", 2.0, 1.02, 15.0, "norm of SMs and memory"),
    _P("exposed", "1", 0.3, 0.01, 3.0, "share of the shorter of products and softmax not hidden"),
    _P("resident", "CTAs/SM", 1.5, 0.8, 6.0, "CTAs that an SM has at a time"),
    _P("single", "1", 1.0, 0.2, 3.0, "kernels for one query head a key head, against the others"),
    _P("wide", "1", 1.0, 0.3, 5.0, "kernels for more than 32 query heads a key head"),
    _P("throttle", "1", 0.2, 0.001, 2.0, "clocks lost a unit of tensor use above the knee"),
    _P("knee", "1", 0.5, 0.05, 0.95, "tensor use at which power begins to lower clocks"),
    _P("cache", "1", 1.2, 0.2, 6.0, "time of the cache's bytes, in units of DRAM's"),
    _P("insert", "us", 3.0, 0.05, 20.0, "a CTA that writes one token's keys and values"),
    _P("sequence", "us", 0.02, 0.0005, 2.0, "each sequence's own cost"),
    _P("combine", "us", 2.0, 0.05, 15.0, "joining the parts of split keys"),
    _P("workspace", "x DRAM", 1.0, 0.05, 10.0, "rate of the parts' fp32 workspace"),
    _P("l2_usable", "1", 0.5, 0.05, 2.0, "share of L2 that keeps operands between calls"),
    _P("l2_sharpness", "1", 3.0, 0.7, 12.0, "how suddenly operands fall out of L2"),
    _P("l2_rate", "B/clk/SM", 20, 3.0, 200, "rate of L2 over the whole chip"),
)
