"""Which of the most used operators have a row, and which are compared with the CPU alone."""

from benchmarks.torch.program.frequent import ALSO_USED, USED
from benchmarks.torch.rules.table import ROWS


def operators() -> tuple[str, ...]:
    """Return the most used operators (`benchmarks/torch/program/frequent.py`)."""
    return tuple(dict.fromkeys((*USED, *ALSO_USED)))


def with_rows() -> tuple[str, ...]:
    """Return those of the most used operators that have a row."""
    bases = {_base(row.name) for row in ROWS} | {row.name for row in ROWS}
    return tuple(name for name in operators() if name in bases)


def without_rows() -> tuple[str, ...]:
    """Return those of the most used operators that have none."""
    covered = set(with_rows())
    return tuple(name for name in operators() if name not in covered)


def _base(name: str) -> str:
    """Return an operator's name without the variant that a row adds."""
    prefixes = ("nn.functional.", "special.", "linalg.")
    prefix = next((text for text in prefixes if name.startswith(text)), "")
    return prefix + name.removeprefix(prefix).split(".")[0]
