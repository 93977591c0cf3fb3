"""``layout status``: the progress of rollouts as a table or a document."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import click

from console.kubectl import output
from console.views.rollout import GpuRollout, LayoutRollout, Phase, format_duration


def write_rollouts(rollouts: Sequence[LayoutRollout], form: str, moment: datetime.datetime) -> None:
    """Print one line for each layout; with ``wide`` one for each GPU that is not done."""
    if form in ("json", "yaml"):
        output.write_document(
            {"layouts": [_document(rollout, moment) for rollout in rollouts]}, form
        )
    elif not rollouts:
        click.echo("No MIGLayout found.", err=True)
    elif form == "wide":
        write_gpus(rollouts, moment)
    else:
        _write_layouts(rollouts, moment)


def write_gpus(rollouts: Iterable[LayoutRollout], moment: datetime.datetime) -> None:
    """Print the GPUs of layouts that are not done, and on stderr how to try a layout again."""
    every = list(rollouts)
    rows = [
        (rollout.layout.name, gpu.gpu.name, gpu.phase.value, _left(gpu.left_s(moment)), gpu.message)
        for rollout in every
        for gpu in rollout.unfinished
    ]
    _write_retries(every)
    if rows:
        output.write_table(("LAYOUT", "GPU", "STATE", "LEFT", "MESSAGE"), rows)
    else:
        click.echo("All GPUs are done.", err=True)


def _write_layouts(rollouts: Iterable[LayoutRollout], moment: datetime.datetime) -> None:
    every = list(rollouts)
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
            rollout.layout.name,
            f"{rollout.counts[Phase.APPLIED]}/{rollout.total}",
            *(str(rollout.counts[phase]) for phase in titles),
            _left(rollout.left_s(moment)),
            _verdict(rollout),
        )
        for rollout in every
    ]
    _write_retries(every)
    output.write_table(("LAYOUT", "DONE", *titles.values(), "LEFT", "STATUS"), rows)


def _write_retries(rollouts: Iterable[LayoutRollout]) -> None:
    for rollout in rollouts:
        if rollout.retry:
            click.echo(f"{rollout.layout.name} was rolled back. {rollout.retry}", err=True)


def _verdict(rollout: LayoutRollout) -> str:
    """Return the condition that describes the rollout, as the operator wrote it last."""
    verdict = rollout.verdict
    if verdict is None:
        return "not processed yet"
    text = f"{verdict.type}={verdict.status} {verdict.reason}"
    if verdict.message:
        text += f": {verdict.message}"
    return text if rollout.is_observed else f"{text} (of an older version)"


def _left(seconds: int | None) -> str:
    return "-" if seconds is None else format_duration(seconds) if seconds else "over"


def _document(rollout: LayoutRollout, moment: datetime.datetime) -> dict[str, Any]:
    verdict = rollout.verdict
    return {
        "layout": rollout.layout.name,
        "observed": rollout.is_observed,
        "gpus": rollout.total,
        "states": {phase.value: number for phase, number in rollout.counts.items()},
        "condition": None if verdict is None else verdict.model_dump(mode="json", by_alias=True),
        "unfinished": [_gpu(gpu, moment) for gpu in rollout.unfinished],
        "retry": rollout.retry,
        "followOlderLayouts": dict(rollout.taken),
    }


def _gpu(gpu_rollout: GpuRollout, moment: datetime.datetime) -> dict[str, Any]:
    return {
        "gpu": gpu_rollout.gpu.name,
        "state": gpu_rollout.phase.value,
        "message": gpu_rollout.message,
        "deadline": gpu_rollout.deadline.isoformat() if gpu_rollout.deadline else None,
        "leftSeconds": gpu_rollout.left_s(moment),
    }
