"""Texts that messages of several components share."""

from collections.abc import Sequence


def list_first(items: Sequence[str], max_count: int | None, between: str = ", ") -> str:
    """Return the first ``max_count`` items, or all where it is None, and the number of the others.

    The separator ``between`` also stands before the number if it ends a clause, as ``"; "`` does:
    ``"a, b and 3 more"``, ``"a; b; and 3 more"``.
    """
    listed_text = between.join(items[:max_count])
    omitted_count = 0 if max_count is None else len(items) - max_count
    if omitted_count <= 0:
        return listed_text
    return f"{listed_text}{' ' if between == ', ' else between}and {omitted_count} more"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``"1 pod"`` or ``"0 pods"``."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def format_size(size_bytes: float) -> str:
    """Return a size in GiB; in MiB below one GiB."""
    if size_bytes < 2**30:
        return f"{size_bytes / 2**20:.0f} MiB"
    return f"{size_bytes / 2**30:.1f} GiB"
