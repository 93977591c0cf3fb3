"""The parameters of the model of streams: each one's name, unit, start value, bounds and
meaning.
"""

from typing import Final

from vgpu_sim.perf.parameters import Parameter

_P = Parameter
PARAMETERS: Final = (
    _P("launch", "us", 2.0, 0.3, 10.0, "stream to first CTA, and the drain after the last"),
    _P("row", "us", 1.0, 0.02, 10.0, "a CTA's start and end: one row"),
    _P("element", "ns", 0.1, 0.001, 10.0, "an element in a CTA that has its SM for itself"),
    _P("resident", "CTAs/SM", 4.0, 1.0, 32.0, "CTAs that an SM has at a time"),
    _P("dram", "1", 0.85, 0.2, 1.1, "share of the data sheet's DRAM rate"),
    _P("l2_usable", "1", 0.5, 0.05, 3.0, "share of L2 that keeps operands between calls"),
    _P("l2_sharpness", "1", 3.0, 0.5, 12.0, "how suddenly operands fall out of L2"),
    _P("l2_rate", "B/clk/SM", 20, 1.0, 200, "rate of L2 over the whole chip"),
    _P("overlap", "1", 3.0, 1.02, 15.0, "norm of SMs and memory"),
)
