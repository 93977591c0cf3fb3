"""What the counts of a litmus test show, and why a weak outcome cannot occur here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.litmus import proxies
from benchmarks.litmus.shapes import SHAPES, STRENGTHS

ASYNC = "async"  # the scope of the tests of proxies
_FORBIDDEN = {
    **{shape.name: shape.forbidden_with for shape in SHAPES},
    **{reader.name: frozenset({proxies.FENCED}) for reader in proxies.READERS},
}
_ONE_THREAD = {
    "cta": "the warps of a block run on one CPU thread",
    "cluster": "the blocks of a cluster run on one CPU thread",
    ASYNC: "a copy or product is complete when its instruction is",
}
_IN_ORDER = "x86-64 reorders only a load before an earlier store"


@dataclass(frozen=True, slots=True)
class Count:
    """The runs of a test with one strength, those with the weak outcome, and the interleaved."""

    runs: int
    weak: int
    interleaved: int


Counts = Mapping[str, Count]  # by strength


def strengths(name: str) -> tuple[str, ...]:
    """Return the strengths of a test, the weakest first."""
    readers = {reader.name for reader in proxies.READERS}
    return (proxies.PLAIN, proxies.FENCED) if name in readers else STRENGTHS


def is_forbidden(name: str, strength: str) -> bool:
    """Return whether PTX forbids the weak outcome of a test with these accesses."""
    return strength in _FORBIDDEN[name]


def is_violated(name: str, counts: Counts) -> bool:
    """Return whether a forbidden outcome occurred."""
    return any(counts[s].weak for s in counts if is_forbidden(name, s))


def cause(name: str, scope: str) -> str:
    """Return why the weak outcome of a test cannot occur; empty if it can."""
    return _ONE_THREAD.get(scope, "" if name == "SB" else _IN_ORDER)


def verdict(name: str, scope: str, counts: Counts) -> str:
    """Return in words what the counts show: never that a test without a weak twin passed."""
    if is_violated(name, counts):
        return "VIOLATED: an outcome occurred that PTX forbids"
    if any(counts[s].weak for s in counts if not is_forbidden(name, s)):
        return "weak twin shown, forbidden outcome absent"
    why = cause(name, scope) or "the threads did not run at the same time"
    interleaved = any(count.interleaved for count in counts.values())
    evidence = "threads interleaved" if interleaved else "no concurrency shown"
    return f"not shown: {why}" + ("" if scope in _ONE_THREAD else f"; {evidence}")


def table(counts_by_test: Mapping[tuple[str, str], Counts]) -> str:
    """Return all tests as a table; f marks the outcomes that PTX forbids."""
    lines: list[Sequence[str]] = []
    for names in (STRENGTHS, (proxies.PLAIN, proxies.FENCED)):
        rows = [
            (test, counts) for test, counts in counts_by_test.items() if strengths(test[0]) == names
        ]
        if not rows:
            continue
        lines.append(("test", "scope", "runs each", *names, "interleaved", "verdict"))
        for (name, scope), counts in rows:
            cells = [
                f"{counts[s].weak}{' f' if is_forbidden(name, s) else ''}" if s in counts else "-"
                for s in names
            ]
            runs = str(min(count.runs for count in counts.values()))
            between = str(sum(count.interleaved for count in counts.values()))
            lines.append((name, scope, runs, *cells, between, verdict(name, scope, counts)))
    return "\n".join(_align(lines))


def _align(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [
        max((len(line[n]) for line in lines if n < len(line) - 1), default=0)
        for n in range(max(map(len, lines), default=0))
    ]
    return [
        "  ".join(cell.ljust(widths[n]) for n, cell in enumerate(line)).rstrip() for line in lines
    ]
