"""The whole table of rules."""

from benchmarks.torch.rules.families import (
    activations,
    arithmetic,
    comparisons,
    complexes,
    creation,
    further,
    indexing,
    integers,
    losses,
    outs,
    products,
    reductions,
    selection,
    shapes,
    unary,
)
from benchmarks.torch.rules.row import Row

FAMILIES = (
    comparisons,
    arithmetic,
    integers,
    unary,
    activations,
    selection,
    creation,
    reductions,
    shapes,
    indexing,
    products,
    losses,
    complexes,
    outs,
    further,
)
ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
