"""Predictions of whole models as drawings: the causes of each phase's time, by operator."""

from collections.abc import Sequence

from drawing.causes import Stack
from drawing.documents import Figure
from vgpu_sim.perf.models import Drawing, Report
from vgpu_sim.perf.models.serving import Pass
from vgpu_sim.perf.pictures import figure_of_stacks


def stacks_of_models(
    reports: Sequence[Report], drawings: Sequence[Drawing]
) -> dict[str, list[Stack]]:
    """Return the causes of each phase, by the phase's title, on all boards."""
    stacks_by_phase: dict[str, list[Stack]] = {}
    for name in ("prefill", "decode"):
        for report in reports:
            stack = _stack_of_pass(report.question.board, getattr(report, name))
            stacks_by_phase.setdefault(name, []).append(stack)
    for drawing in drawings:
        parts = {kind: us / 1e3 for kind, (_, us) in drawing.kinds.items()}
        parts |= {"launch gaps": drawing.waiting / 1e3} if drawing.waiting else {}
        ends = ((drawing.step_us - drawing.half) / 1e3, (drawing.step_us + drawing.half) / 1e3)
        stack = Stack(drawing.board, drawing.step_us / 1e3, parts, ends, "ms")
        stacks_by_phase.setdefault("denoising step", []).append(stack)
    return stacks_by_phase


def _stack_of_pass(board: str, model_pass: Pass) -> Stack:
    parts: dict[str, float] = {}
    for part in model_pass.parts:
        parts[part.name] = parts.get(part.name, 0.0) + part.us / 1e3
    if model_pass.waiting:
        parts["launch gaps"] = model_pass.waiting / 1e3
    ends = (
        (model_pass.us - model_pass.half_width_us) / 1e3,
        (model_pass.us + model_pass.half_width_us) / 1e3,
    )
    return Stack(board, model_pass.us / 1e3, parts, ends, "ms")


def figures_of_models(reports: Sequence[Report], drawings: Sequence[Drawing]) -> list[Figure]:
    """Return one drawing for each phase."""
    stacks = stacks_of_models(reports, drawings)
    return [figure_of_stacks(every, title) for title, every in stacks.items()]
