"""A verdict on a flow as a path: source, egress, partition, ingress, destination."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from drawing.elements import Element, element, shorten
from drawing.terminal import Line, Span
from rdma.explain import Explanation, Half
from rdma.tables import describe_pkey

WIDTH: Final = 720
_BOX: Final = 128
_HIGH: Final = 46
_TOP: Final = 8
_LINE: Final = 16
_MOST_LINES: Final = 24


@dataclass(frozen=True, slots=True)
class Stage:
    """A check on the way: whether it passes, and its reasons."""

    name: str
    passes: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A flow: what is sent from where to where, and the checks on the way."""

    what: str
    source: str
    destination: str
    stages: tuple[Stage, ...]

    @property
    def passes(self) -> bool:
        """Return whether every check passes."""
        return all(one.passes for one in self.stages)

    @property
    def label(self) -> str:
        """Return the path in words."""
        stages = "; ".join(f"{one.name} {_word(one)}" for one in self.stages)
        verdict = "allowed" if self.passes else "denied"
        return f"{self.what} from {self.source} to {self.destination}: {verdict}; {stages}"


def path_of(answer: Explanation) -> Path:
    """Return the path of an explained flow."""
    egress, ingress = answer.halves
    shared = f"P_Key {describe_pkey(answer.pkey)}: {answer.partition}"
    stages = [
        Stage("egress", egress.allowed, _reasons_of(egress, answer.verb)),
        Stage("partition", answer.partition_shared, (shared,)),
        Stage("ingress", ingress.allowed, _reasons_of(ingress, answer.verb)),
    ]
    if not answer.allowed and all(one.passes for one in stages):
        stages.append(Stage("memory", False, (answer.memory or answer.consequence,)))
    return Path(answer.verb, answer.source, answer.destination, tuple(stages))


def _reasons_of(half: Half, verb: str) -> tuple[str, ...]:
    if half.note:
        return (half.note,)
    letting = [f"rule {rule}" for rule, verbs in half.rules if verb in verbs]
    isolating = [f"isolated by {policy}" for policy in half.isolated_by]
    auditing = [f"audited by {policy}" for policy in half.audited_by]
    return tuple(letting or isolating or auditing)


def draw_path(path: Path) -> Element:
    """Return the path with a box for each check, and the reasons of each below it."""
    names = [path.source, *(one.name for one in path.stages), path.destination]
    step = (WIDTH - _BOX - 16) / (len(names) - 1)
    parts: list[Element] = []
    open_until_here = True
    for place, name in enumerate(names):
        left = 8 + place * step
        stage = path.stages[place - 1] if 0 < place <= len(path.stages) else None
        if place:
            kind = "pass" if open_until_here else "deny"
            middle = _TOP + _HIGH / 2
            line = f"M{left - step + _BOX:.1f} {middle}H{left - 2:.1f}m-7 -4l7 4l-7 4"
            parts.append(element("path", class_=f"wire {kind}", d=line))
        open_until_here = open_until_here and (stage is None or stage.passes)
        parts.append(_box(left, name, stage))
    texts = list(_reasons(path.stages))
    for number, text in enumerate(texts):
        y = _TOP + _HIGH + 24 + number * _LINE
        parts.append(element("text", shorten(text, 110), x=8, y=y))
    high = _TOP + _HIGH + 16 + len(texts) * _LINE + 8
    return element(
        "svg",
        *parts,
        class_="drawing",
        viewBox=f"0 0 {WIDTH} {high}",
        role="img",
        aria_label=shorten(path.label, 1500),
    )


def path_lines(path: Path, columns: int) -> Iterator[Line]:
    """Yield the path as a line of text, such as ``a --egress passes--> b``; where that is wider
    than the terminal, yield a line for each end and each check.
    """
    steps: list[tuple[Span, ...]] = [(Span(path.source, bold=True),)]
    for one in path.stages:
        arrow = "──" if one.passes else "─✕"
        word = Span(f"{one.name} {_word(one)}", "green" if one.passes else "red")
        steps.append((Span(f" {arrow} "), word))
    steps.append((Span(" ─▶ " if path.passes else " ─✕ "), Span(path.destination, bold=True)))
    if sum(len(span.text) for step in steps for span in step) <= columns:
        yield [span for step in steps for span in step]
        return
    for *before, last in steps:
        room = max(columns - sum(len(span.text) for span in before), 1)
        first, *rest = textwrap.wrap(last.text, room) or [""]
        yield [*before, Span(first, last.colour, last.bold)]
        indent = Span(" " * (columns - room))
        yield from ([indent, Span(one, last.colour, last.bold)] for one in rest)


def _word(stage: Stage) -> str:
    return "passes" if stage.passes else "denies"


def _box(left: float, name: str, stage: Stage | None) -> Element:
    kind = "" if stage is None else " pass" if stage.passes else " deny"
    middle = left + _BOX / 2
    second = None
    if stage is not None:
        second = element("text", _word(stage), class_="axis mid", x=middle, y=_TOP + 34)
    return element(
        "g",
        element("title", name),
        element("rect", class_=f"box{kind}", x=left, y=_TOP, width=_BOX, height=_HIGH, rx=4),
        element("text", shorten(name, 19), class_="mid", x=middle, y=_TOP + (20 if stage else 27)),
        second,
    )


def _reasons(stages: Sequence[Stage]) -> Iterator[str]:
    every = [f"{one.name}: {reason}" for one in stages for reason in one.reasons]
    yield from every[:_MOST_LINES]
    if len(every) > _MOST_LINES:
        yield f"and {len(every) - _MOST_LINES} more reasons"
