"""Converts best times to rows: ratios with their goals, and summaries of groups of contests."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.exec.contest import FIFTEEN, OURS, POCL, UNCLAMPED, Contest
from benchmarks.exec.race import Outcome
from benchmarks.report import Row, Section

CLAMP_GOAL_PERCENT = 10.0
_GEOMEAN_GOAL, _MEDIAN_GOAL = 10.0, 6.0


def section(contest: Contest, outcome: Outcome, clamp: bool) -> Section:
    """Return a contest's rows: Tessera's time, and the others' times divided by it."""
    name, seconds = contest.name, outcome.seconds
    rows = []
    if OURS not in seconds:
        return Section(name, skipped=outcome.missing.get(OURS, "for an unknown reason"))
    ours = seconds[OURS]
    rows.append(Row(name, OURS, *_readable(ours)))
    if contest.work is not None:
        amount, unit = contest.work
        rows.append(Row(name, f"{OURS}, rate", amount / ours, f"{unit}/s"))
    for contender in dict.fromkeys([*contest.goals, *seconds]):
        if contender in (OURS, UNCLAMPED):
            continue
        goal = contest.goals.get(contender)
        if contender in seconds:
            value, unit = _readable(seconds[contender])
            text = f"{contender} ({value:.3g} {unit}) / {OURS}"
            rows.append(Row(name, text, seconds[contender] / ours, "x", goal, at_least=True))
        else:
            why = outcome.missing.get(contender, "did not take part")
            rows.append(
                Row(name, f"{contender} / {OURS}", 0, "x", goal, at_least=True, missing=why)
            )
    if clamp:
        text = "cost of the clamp"
        if UNCLAMPED in seconds:
            percent = 100 * (ours / seconds[UNCLAMPED] - 1)
            rows.append(Row(name, text, percent, "%", CLAMP_GOAL_PERCENT))
        else:
            why = outcome.missing.get(UNCLAMPED, "did not take part")
            rows.append(Row(name, text, 0, "%", CLAMP_GOAL_PERCENT, missing=why))
    return Section(name, tuple(rows))


def summary(contests: Sequence[Contest], outcomes: Mapping[str, Outcome]) -> list[Section]:
    """Return mean, median and worst ratio to PoCL over the selected kernels."""
    group = [contest.name for contest in contests if FIFTEEN in contest.tags]
    if not group:
        return []
    ratios = [
        outcomes[name].seconds[POCL] / outcomes[name].seconds[OURS]
        for name in group
        if {POCL, OURS} <= outcomes[name].seconds.keys()
    ]
    title = f"{len(group)} kernels against PoCL"
    absent = [name for name in group if not {POCL, OURS} <= outcomes[name].seconds.keys()]
    missing = f"without {', '.join(absent)}" if absent else ""
    known_ratios = ratios or [0.0]
    return [
        Section(
            title,
            (
                Row(
                    title,
                    "geometric mean",
                    statistics.geometric_mean(known_ratios),
                    "x",
                    _GEOMEAN_GOAL,
                    True,
                    missing,
                )
                if ratios
                else Row(title, "geometric mean", 0, "x", _GEOMEAN_GOAL, True, missing),
                Row(
                    title,
                    "median",
                    statistics.median(known_ratios),
                    "x",
                    _MEDIAN_GOAL,
                    True,
                    missing,
                ),
                Row(title, "worst", min(known_ratios), "x", None, True, missing),
            ),
        )
    ]


def _readable(seconds: float) -> tuple[float, str]:
    return (seconds * 1e3, "ms") if seconds >= 1e-3 else (seconds * 1e6, "us")
