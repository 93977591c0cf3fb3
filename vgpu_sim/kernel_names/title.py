"""The title of a kernel: the name under which messages, reports and pages show it.

The title of a C++ kernel is its declaration, without the result, which is always void. Numba
mangles the names of Python functions in the same form, with a tag that describes its compiler
options in about 90 characters; titles omit the tag, and contain Python's ``<locals>`` and
``<lambda>``. The title of a name that is not mangled is the name itself.

Programs choose their kernels' names. A title is therefore printable ASCII and has a limited length;
two names with different titles keep different titles when these are cut, because a cut title ends
with a digest of the name.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from vgpu_sim.kernel_names.cursor import UnsupportedName
from vgpu_sim.kernel_names.itanium import demangle

MAX_TITLE: Final = 127  # characters: the field in fault records has room for them and a NUL
_NUMBA_TAG: Final = re.compile(r"\[abi:cw[0-9A-Za-z]{8,}\]")
_NUMBA_PARTS: Final = (("_3clocals_3e", "<locals>"), ("_3clambda_3e", "<lambda>"))
_SCOPES: Final = re.compile(r"_ZN?K?(?:St|L|S[0-9A-Z]*_)*([1-9][0-9]{0,3})")
_LENGTH: Final = re.compile(r"L?([1-9][0-9]{0,3})")
_MOST_SCOPES: Final = 16
_DIGEST_CHARACTERS: Final = 8


@lru_cache(maxsize=4096)
def title_of(name: str) -> str:
    """Return a kernel's title, of at most ``MAX_TITLE`` printable ASCII characters."""
    try:
        text = demangle(name)
    except UnsupportedName:
        scopes = _leading_scopes(name)
        text = f"{'::'.join(scopes)}<...>" if scopes else name
        return _bounded(text, name, must_mark=bool(scopes))
    text = text.removeprefix("void ")
    tagless = _NUMBA_TAG.sub("", text)
    if tagless != text:
        for escaped, part in _NUMBA_PARTS:
            tagless = tagless.replace(escaped, part)
    return _bounded(tagless, name)


def brief_titles(titles: Iterable[str]) -> dict[str, str]:
    """Map each title to its part before the parameters or, where several have the same such part,
    to the whole title.
    """
    briefs = {title: _without_parameters(title) for title in titles}
    count: dict[str, int] = {}
    for brief in briefs.values():
        count[brief] = count.get(brief, 0) + 1
    return {title: brief if count[brief] == 1 else title for title, brief in briefs.items()}


def _without_parameters(title: str) -> str:
    """Return a title without the parameters at its end, if they are complete."""
    depth = 0
    if not title.endswith(")"):
        return title
    for at in range(len(title) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(title[at], 0)
        if depth == 0:
            return title[:at]
    return title


def _leading_scopes(name: str) -> list[str]:
    """Return the namespaces and the name at the beginning of a mangled name, for example of one
    that has an unsupported expression among its template arguments.
    """
    match = _SCOPES.match(name)
    scopes: list[str] = []
    while match is not None and len(scopes) < _MOST_SCOPES:
        begin = match.start(1) + len(match[1])
        end = begin + int(match[1])
        if end > len(name):
            return []
        scopes.append(name[begin:end])
        match = _LENGTH.match(name, end) if name.startswith("_ZN") else None
    return scopes


def _bounded(text: str, name: str, *, must_mark: bool = False) -> str:
    """Make a title printable and limit its length. ``must_mark`` is set if it lacks parts."""
    printable = "".join(character if " " <= character <= "~" else "?" for character in text)
    if printable == text and len(text) <= MAX_TITLE and not must_mark:
        return text
    data = name.encode(errors="surrogatepass")
    digest = hashlib.blake2b(data, digest_size=_DIGEST_CHARACTERS // 2).hexdigest()
    mark = f" #{digest}"
    room = MAX_TITLE - len(mark)
    cut = printable if len(printable) <= room else printable[: room - 3] + "..."
    return cut + mark
