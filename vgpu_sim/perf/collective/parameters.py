"""The parameters of the model of collectives: each one's name, unit, start value, bounds and
meaning.
"""

from typing import Final

from vgpu_sim.perf.parameters import Parameter

_P = Parameter
PARAMETERS: Final = (
    _P("base", "us", 4.0, 0.5, 20.0, "launch and the first synchronisation"),
    _P("ll_hop", "us", 0.9, 0.02, 8.0, "a step of LL: a flag beside each word"),
    _P("ll_rate", "x link", 0.12, 0.005, 0.6, "rate of LL"),
    _P("ll128_start", "us", 1.0, 0.05, 20.0, "more that LL128 needs to start"),
    _P("ll128_hop", "us", 0.75, 0.02, 6.0, "a step of LL128: a flag beside 120 bytes"),
    _P("ll128_rate", "x link", 0.5, 0.05, 1.0, "rate of LL128"),
    _P("simple_start", "us", 6.0, 0.2, 80.0, "more that Simple needs to start"),
    _P("simple_hop", "us", 1.5, 0.05, 15.0, "a step of Simple: fences"),
    _P("simple_rate", "x link", 0.8, 0.2, 1.1, "rate of Simple"),
    _P("simple_ramp", "us", 30.0, 1.0, 600.0, "more of Simple's time until chunks are large"),
    _P("nvls_start", "us", 12.0, 0.2, 180.0, "more that the switch's multicast needs to start"),
    _P("nvls_rate", "x link", 1.0, 0.3, 2.5, "rate of the switch's reduction"),
    _P("gather", "1", 1.0, 0.3, 3.0, "wire time of all-gather, against all-reduce"),
    _P("scatter", "1", 1.0, 0.3, 3.0, "wire time of reduce-scatter, against all-reduce"),
    _P("exchange", "1", 1.0, 0.3, 3.0, "wire time of all-to-all, against all-reduce"),
    _P("exchange_start", "1", 1.5, 0.5, 5.0, "starts of all-to-all: grouped sends and receives"),
    _P("pair", "1", 0.6, 0.05, 1.2, "share of LL's rates that two GPUs reach: fewer channels"),
    _P("choice", "1", 20.0, 3.0, 100.0, "how well the library finds the best protocol"),
)
# Without NVLink, transfers between GPUs share PCIe switches and the link between sockets.
WITHOUT_NVLINK: Final = (
    *PARAMETERS,
    _P("contention", "1", 1.0, 0.05, 3.0, "exponent of wire time in GPUs, against two GPUs"),
)
