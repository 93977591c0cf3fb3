"""Equivalent integer comparisons: with the result inverted, or with the operands exchanged."""

from typing import Final

from vgpu_sim.isa import Compare

NEGATED: Final = {
    Compare.EQ: Compare.NE,
    Compare.NE: Compare.EQ,
    Compare.LT: Compare.GE,
    Compare.GE: Compare.LT,
    Compare.GT: Compare.LE,
    Compare.LE: Compare.GT,
}
MIRRORED: Final = {
    Compare.EQ: Compare.EQ,
    Compare.NE: Compare.NE,
    Compare.LT: Compare.GT,
    Compare.GT: Compare.LT,
    Compare.LE: Compare.GE,
    Compare.GE: Compare.LE,
}
