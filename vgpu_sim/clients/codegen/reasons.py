"""Groups the unsupported symbols of a library, by the reason why each is unsupported or by noun."""

import re
from collections import defaultdict
from collections.abc import Iterable

from vgpu_sim.clients.codegen.library import Page


def unsupported_lines(symbols: Iterable[str], page: Page) -> list[str]:
    """Return one line of Markdown for each group.

    Raises:
        ValueError: the library states reasons, but none for one of the symbols.
    """
    groups = defaultdict(list)
    for symbol in symbols:
        groups[_reason(symbol, page) if page.reasons else _noun(symbol, page)].append(symbol)
    return [
        f"- {group}: " + ", ".join(f"`{name}`" for name in sorted(groups[group]))
        for group in sorted(groups, key=str.lower)
    ]


def _noun(symbol: str, page: Page) -> str:
    noun = re.match(page.noun, symbol)
    return noun[1] if noun else "other"


def _reason(symbol: str, page: Page) -> str:
    """Return the reason of the first pattern that matches the whole symbol."""
    for pattern, reason in page.reasons.items():
        if re.fullmatch(pattern, symbol):
            return reason
    raise ValueError(f"library.toml has no reason why {symbol} is not supported")
