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
NARROW: Final = 340
_REASON: Final = 110  # characters of a reason's line in a wide drawing
_NARROW_REASON: Final = 44
_BOX: Final = 128
_HIGH: Final = 46
_TOP: Final = 8
_LINE: Final = 16
_MOST_LINES: Final = 24
_LONGEST: Final = 600  # characters of a reason
_STEP: Final = 22  # between two boxes of a narrow drawing
_LETTER: Final = 6.7
_INDENT: Final = "\N{NO-BREAK SPACE}" * 3  # SVG collapses other spaces


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
        return all(stage.passes for stage in self.stages)

    @property
    def label(self) -> str:
        """Return the path in words."""
        stages = "; ".join(f"{stage.name} {_word(stage)}" for stage in self.stages)
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
    if not answer.allowed and all(stage.passes for stage in stages):
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
    names = _names(path)
    step = (WIDTH - _BOX - 16) / (len(names) - 1)
    parts: list[Element] = []
    for place, (name, stage, kind) in enumerate(names):
        x = 8 + place * step
        if place:
            middle = _TOP + _HIGH / 2
            line = f"M{x - step + _BOX:.1f} {middle}H{x - 2:.1f}m-7 -4l7 4l-7 4"
            parts.append(element("path", class_=f"wire {kind}", d=line))
        parts.append(_box(x, _TOP, _BOX, name, stage))
    texts = _wrap(_reasons(path.stages), _REASON)
    return _finish(path, parts, texts, _TOP + _HIGH, WIDTH)


def draw_narrow_path(path: Path) -> Element:
    """Return the same drawing for a narrow window: the checks are below each other."""
    parts: list[Element] = []
    wide, top = NARROW - 16, float(_TOP)
    for place, (name, stage, kind) in enumerate(_names(path)):
        if place:
            line = f"M{NARROW / 2} {top}V{top + _STEP - 2:.1f}m-4 -7l4 7l4 -7"
            parts.append(element("path", class_=f"wire {kind}", d=line))
            top += _STEP
        parts.append(_box(8, top, wide, name, stage))
        top += _HIGH
    texts = _wrap(_reasons(path.stages), _NARROW_REASON)
    return _finish(path, parts, texts, top, NARROW)


def _names(path: Path) -> list[tuple[str, Stage | None, str]]:
    """Return each end and each check: its name, the check, and the class of the line before it."""
    is_open = True
    nodes: list[tuple[str, Stage | None, str]] = [(path.source, None, "")]
    for stage in path.stages:
        nodes.append((stage.name, stage, "pass" if is_open else "deny"))
        is_open = is_open and stage.passes
    nodes.append((path.destination, None, "pass" if is_open else "deny"))
    return nodes


def _wrap(texts: Iterator[str], columns: int) -> list[str]:
    """Return the texts as lines; those behind the first one of a text are indented."""
    lines: list[str] = []
    for text in texts:
        lines += textwrap.wrap(shorten(text, _LONGEST), columns, subsequent_indent=_INDENT)
    return lines


def _finish(
    path: Path, parts: Sequence[Element], texts: Sequence[str], top: float, width: int
) -> Element:
    """Return the drawing: ``parts``, and lines of text below ``top``."""
    lines = [
        element("text", text, x=8, y=top + 24 + number * _LINE) for number, text in enumerate(texts)
    ]
    high = top + 16 + len(texts) * _LINE + 8
    return element(
        "svg",
        *parts,
        *lines,
        class_="drawing",
        viewBox=f"0 0 {width} {high:g}",
        role="img",
        aria_label=shorten(path.label, 1500),
    )


def path_lines(path: Path, columns: int) -> Iterator[Line]:
    """Yield the path as a line of text, such as ``a --egress passes--> b``; where that is wider
    than the terminal, yield a line for each end and each check.
    """
    steps: list[tuple[Span, ...]] = [(Span(path.source, bold=True),)]
    for stage in path.stages:
        arrow = "──" if stage.passes else "─✕"
        word = Span(f"{stage.name} {_word(stage)}", "green" if stage.passes else "red")
        steps.append((Span(f" {arrow} "), word))
    steps.append((Span(" ─▶ " if path.passes else " ─✕ "), Span(path.destination, bold=True)))
    if sum(len(span.text) for step in steps for span in step) <= columns:
        yield [span for step in steps for span in step]
        return
    for *leading_spans, last in steps:
        room = max(columns - sum(len(span.text) for span in leading_spans), 1)
        first, *continuation_lines = textwrap.wrap(last.text, room) or [""]
        yield [*leading_spans, Span(first, last.colour, last.bold)]
        indent = Span(" " * (columns - room))
        yield from ([indent, Span(line, last.colour, last.bold)] for line in continuation_lines)


def _word(stage: Stage) -> str:
    return "passes" if stage.passes else "denies"


def _box(x: float, top: float, wide: float, name: str, stage: Stage | None) -> Element:
    kind = "" if stage is None else " pass" if stage.passes else " deny"
    middle = x + wide / 2
    second = None
    if stage is not None:
        second = element("text", _word(stage), class_="axis mid", x=middle, y=top + 34)
    text = shorten(name, int(wide / _LETTER))
    return element(
        "g",
        element("title", name),
        element("rect", class_=f"box{kind}", x=x, y=top, width=wide, height=_HIGH, rx=4),
        element("text", text, class_="mid", x=middle, y=top + (20 if stage else 27)),
        second,
    )


def _reasons(stages: Sequence[Stage]) -> Iterator[str]:
    all_reasons = [f"{stage.name}: {reason}" for stage in stages for reason in stage.reasons]
    yield from all_reasons[:_MOST_LINES]
    if len(all_reasons) > _MOST_LINES:
        yield f"and {len(all_reasons) - _MOST_LINES} more reasons"
