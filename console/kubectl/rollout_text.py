"""``layout status``: the progress of rollouts as a table or a document."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import click

from console.kubectl import output
from console.views.rollout import GpuRollout, LayoutRollout, Phase, format_duration


def write_rollouts(found: Sequence[LayoutRollout], form: str, now: datetime.datetime) -> None:
    """Print one line for each layout; with ``wide`` one for each GPU that is not done."""
    if form in ("json", "yaml"):
        output.write_document({"layouts": [_document(one, now) for one in found]}, form)
    elif not found:
        click.echo("No MIGLayout found.", err=True)
    elif form == "wide":
        write_gpus(found, now)
    else:
        _write_layouts(found, now)


def write_gpus(found: Iterable[LayoutRollout], now: datetime.datetime) -> None:
    """Print the GPUs of layouts that are not done, and on stderr how to try a layout again."""
    every = list(found)
    rows = [
        (one.layout.name, gpu.gpu.name, gpu.phase.value, _left(gpu.left_s(now)), gpu.message)
        for one in every
        for gpu in one.unfinished
    ]
    _write_retries(every)
    if rows:
        output.write_table(("LAYOUT", "GPU", "STATE", "LEFT", "MESSAGE"), rows)
    else:
        click.echo("All GPUs are done.", err=True)


def _write_layouts(found: Iterable[LayoutRollout], now: datetime.datetime) -> None:
    every = list(found)
    titles = {
        Phase.CHANGING: "RECONFIGURING",
        Phase.WAITING: "WAITING",
        Phase.PENDING: "NOT-BEGUN",
        Phase.UNHEALTHY: "NOT-HEALTHY",
        Phase.FAILED: "FAILED",
        Phase.ROLLED_BACK: "ROLLED-BACK",
    }
    rows = [
        (
            one.layout.name,
            f"{one.counts[Phase.APPLIED]}/{one.total}",
            *(str(one.counts[phase]) for phase in titles),
            _left(one.left_s(now)),
            _verdict(one),
        )
        for one in every
    ]
    _write_retries(every)
    output.write_table(("LAYOUT", "DONE", *titles.values(), "LEFT", "STATUS"), rows)


def _write_retries(found: Iterable[LayoutRollout]) -> None:
    for one in found:
        if one.retry:
            click.echo(f"{one.layout.name} was rolled back. {one.retry}", err=True)


def _verdict(one: LayoutRollout) -> str:
    """Return the condition that describes the rollout, as the operator wrote it last."""
    verdict = one.verdict
    if verdict is None:
        return "not processed yet"
    text = f"{verdict.type}={verdict.status} {verdict.reason}"
    if verdict.message:
        text += f": {verdict.message}"
    return text if one.is_observed else f"{text} (of an older version)"


def _left(seconds: int | None) -> str:
    return "-" if seconds is None else format_duration(seconds) if seconds else "over"


def _document(one: LayoutRollout, now: datetime.datetime) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "layout": one.layout.name,
        "observed": one.is_observed,
        "gpus": one.total,
        "states": {phase.value: number for phase, number in one.counts.items()},
        "condition": None if verdict is None else verdict.model_dump(mode="json", by_alias=True),
        "unfinished": [_gpu(gpu, now) for gpu in one.unfinished],
        "retry": one.retry,
        "followOlderLayouts": dict(one.taken),
    }


def _gpu(one: GpuRollout, now: datetime.datetime) -> dict[str, Any]:
    return {
        "gpu": one.gpu.name,
        "state": one.phase.value,
        "message": one.message,
        "deadline": one.deadline.isoformat() if one.deadline else None,
        "leftSeconds": one.left_s(now),
    }
