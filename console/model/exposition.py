"""Reads Prometheus's text format from a pod, which may be hostile: every size has a bound.

The parser of prometheus_client is not used: it needs 8 s for half a MiB of escaped quotes, during
which no other viewer is served, and one invalid line ends it. Here a line that is not valid is
skipped, and values are finite.
"""

import math
import re
from collections.abc import Collection, Mapping
from typing import Final

Labels = Mapping[str, str]
Series = dict[str, list[tuple[Labels, float]]]

MOST_LINES: Final = 20_000
_SAMPLE: Final = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,127})(?:\{([^\n]{0,3072})\})?"
    r"[ \t]+(\S{1,40})(?:[ \t]+-?[0-9]{1,20})?"
)
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,63})="((?:[^"\\]|\\.){0,1280})"')
_ESCAPED: Final = re.compile(r"\\(.)")


def read_samples(text: str, series_names: Collection[str]) -> Series:
    """Return the samples of the wanted series by their names; other lines are skipped."""
    series: Series = {}
    for line in text.split("\n", MOST_LINES)[:MOST_LINES]:
        sample = _SAMPLE.fullmatch(line.strip()) if len(line) < 4096 else None
        if sample is None or sample[1] not in series_names:
            continue
        try:
            value = float(sample[3])
        except ValueError:
            continue
        if math.isfinite(value):
            labels = {
                name: _unescape(label_text) for name, label_text in _LABEL.findall(sample[2] or "")
            }
            series.setdefault(sample[1], []).append((labels, value))
    return series


def growth(earlier: float, later: float) -> float:
    """Return by how much a counter has grown; a smaller value means that it began again."""
    return later if later < earlier else later - earlier


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
