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
    found: dict[str, list[Stack]] = {}
    for name in ("prefill", "decode"):
        for one in reports:
            stack = _stack_of_pass(one.question.board, getattr(one, name))
            found.setdefault(name, []).append(stack)
    for drawing in drawings:
        parts = {kind: us / 1e3 for kind, (_, us) in drawing.kinds.items()}
        parts |= {"launch gaps": drawing.waiting / 1e3} if drawing.waiting else {}
        ends = ((drawing.step_us - drawing.half) / 1e3, (drawing.step_us + drawing.half) / 1e3)
        stack = Stack(drawing.board, drawing.step_us / 1e3, parts, ends, "ms")
        found.setdefault("denoising step", []).append(stack)
    return found


def _stack_of_pass(board: str, one: Pass) -> Stack:
    parts: dict[str, float] = {}
    for part in one.parts:
        parts[part.name] = parts.get(part.name, 0.0) + part.us / 1e3
    if one.waiting:
        parts["launch gaps"] = one.waiting / 1e3
    ends = ((one.us - one.half_width_us) / 1e3, (one.us + one.half_width_us) / 1e3)
    return Stack(board, one.us / 1e3, parts, ends, "ms")


def figures_of_models(reports: Sequence[Report], drawings: Sequence[Drawing]) -> list[Figure]:
    """Return one drawing for each phase."""
    stacks = stacks_of_models(reports, drawings)
    return [figure_of_stacks(every, title) for title, every in stacks.items()]
