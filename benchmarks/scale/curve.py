"""Time per node at each size, as lines of text and as a plot."""

from collections.abc import Sequence

from benchmarks.scale.measure import Figures

_PHASES = ("divide whole GPUs", "relay idle", "relay busy, leader killed")
_COLOURS = ("#4477aa", "#ee6677", "#228833")
_WIDTH, _HEIGHT, _LEFT, _BELOW = 640, 320, 60, 40


def _ms(figures: Figures, phase: str) -> float | None:
    """Return milliseconds per node; None: that size did not reach the phase."""
    phase_figures = figures.phases.get(phase)
    return None if phase_figures is None else 1000 * phase_figures.seconds / figures.nodes


def text(all_figures: Sequence[Figures]) -> str:
    """Return milliseconds per node and size, a line for each phase."""
    lines = [f"{'ms per node':<28}" + "".join(f"{f.nodes:>9}" for f in all_figures)]
    for phase in _PHASES:
        each = [_ms(f, phase) for f in all_figures]
        lines.append(
            f"{phase:<28}" + "".join("        -" if m is None else f"{m:9.1f}" for m in each)
        )
    return "\n".join(lines)


def svg(all_figures: Sequence[Figures]) -> str:
    """Return the same as a plot: flat lines mean that a node costs the same in a larger fleet."""
    highest = max(
        (m for f in all_figures for phase in _PHASES if (m := _ms(f, phase))), default=1.0
    )
    max_nodes = max(f.nodes for f in all_figures)

    def across(nodes: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - 20) * nodes / max_nodes

    def points_of(phase: str) -> list[tuple[float, float]]:
        return [
            (across(f.nodes), 20 + (_HEIGHT - _BELOW - 20) * (1 - ms / highest))
            for f in all_figures
            if (ms := _ms(f, phase)) is not None
        ]

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + 20}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT + 20}" fill="white"/>',
        f'<path d="M{_LEFT} 20V{_HEIGHT - _BELOW}H{_WIDTH - 20}" fill="none" stroke="black"/>',
        f'<text x="{_LEFT}" y="14">ms per node</text>',
        f'<text x="8" y="26">{highest:.0f}</text>',
        f'<text x="{_WIDTH - 60}" y="{_HEIGHT - 8}">nodes</text>',
    ]
    for figures in all_figures:
        x = across(figures.nodes)
        parts.append(f'<text x="{x - 10:.0f}" y="{_HEIGHT - _BELOW + 16}">{figures.nodes}</text>')
    for phase, colour, row in zip(_PHASES, _COLOURS, range(3), strict=True):
        points = points_of(phase)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(
            f'<text x="{_LEFT + 10}" y="{_HEIGHT - 8 + 0 * row}" fill="{colour}" dx="{row * 160}">'
            f"{phase}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])
