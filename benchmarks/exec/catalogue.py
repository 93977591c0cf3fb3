"""All contests by name. A new module of contests is registered here."""

from benchmarks.exec.contest import Contest
from benchmarks.exec.contests import (
    algorithms,
    blocks,
    compute,
    matrices,
    meetings,
    products,
    streaming,
    tensors,
)

_MODULES = (streaming, blocks, compute, products, matrices, algorithms, meetings, tensors)
CONTESTS: dict[str, Contest] = {c.name: c for module in _MODULES for c in module.CONTESTS}
