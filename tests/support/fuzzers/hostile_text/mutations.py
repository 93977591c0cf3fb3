"""Changes to PTX text: of bytes, of tokens, and of its structure.

A ``random.Random`` makes all choices, so that a seed determines a text. Structural changes keep
most of a file valid and therefore reach the stages after the parser.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

_FRAGMENTS = (
    *("{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", "+", "-", "!", "~", "@", "|", "?"),
    *("/*", "*/", "//", "\n", '"', "\\", "\0", "\r", "é", "#", "%", "$", "_", ".", "..", "::"),
    *("0x", "0f", "0d3", "0b", "1e9", "08", "9" * 22, "1.", "-0x80000000", "1e308", "1e-400"),
    *(".reg", ".entry", ".func", ".global", ".align", ".v4", ".u32", ".pred", ".section", ".loc"),
    *(".shared", ".local", ".param", ".const", ".extern", ".weak", ".common", ".alias", ".file"),
    *("%r1", "%tid.x", "ret", "call", "mov", "WARP_SZ", "generic(", "(.u64)", "@p", "%r<9>"),
    *(".branchtargets", ".callprototype", ".calltargets", ".pragma", ".maxntid", ".reqntid"),
    *(".attribute(.managed)", ".ptr", "bar.sync 0;", "brx.idx", "exit;", "trap;", "0F7F800000"),
)
_NUMBERS = (
    *("0", "1", "-1", "2", "3", "4", "7", "8", "16", "31", "32", "33", "63", "64", "65", "127"),
    *("255", "256", "1024", "1025", "4096", "32767", "32768", "65535", "65536", "0x7fffffff"),
    *("0x80000000", "0xffffffff", "4294967296", "0x7fffffffffffffff", "0x8000000000000000"),
    *("0xffffffffffffffff", "18446744073709551616", "1000000000", "0f00000000", "0f7fc00001"),
    *("0d7ff0000000000000", "0dfff8000000000001", "1.5", "1e30"),
)
_TOKEN = re.compile(r"%?[A-Za-z_$][\w$]*|\.[\w]+(?:::[\w]+)*|0[xXfFdD][0-9A-Fa-f]+|[0-9]+|[^\s\w]")
_NUMBER = re.compile(r"(?<![\w.%$])-?(?:0[xX][0-9A-Fa-f]+|0[fFdD][0-9A-Fa-f]+|[0-9]+)(?![\w.])")
_REGISTER = re.compile(r"%[A-Za-z_]\w*(?:\.[xyzw])?")
_MODIFIER = re.compile(r"(?<=[a-z0-9])\.[a-z][A-Za-z0-9_:]*")
_STATEMENT = re.compile(r"[^;{}]*;")
_LABEL = re.compile(r"^\s*([\w$]+):", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n")
_INSTRUCTION = re.compile(  # a whole line, and not the end of a function
    r"^[ \t]*(?:@!?%?[\w$]+[ \t]+)?(?!ret\b|exit\b)[a-z]\w*"
    r"[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)?;[ \t]*\n?",
    re.MULTILINE,
)
_MOST_COPIES = 60
COUNTS = (1, 1, 1, 2, 2, 3, 5)

Change = Callable[[str, Random, Sequence[str]], str]


def mutate(
    text: str, random: Random, others: Sequence[str], most: int, counts: Sequence[int] = COUNTS
) -> str:
    """Return ``text`` after a few changes, their number one of ``counts``; ``others`` supply parts.

    The result has at most ``most`` characters.
    """
    for _ in range(random.choice(counts)):
        text = random.choice(CHANGES)(text, random, others)[:most]
    return text


def excerpt(text: str, random: Random) -> str:
    """Return ``text`` with only a few neighbouring instructions, and everything that is not one.

    Declarations and labels remain, so that an excerpt of a valid text is mostly valid, at a
    fraction of the size.
    """
    places = _instructions(text)
    count = random.choice((1, 2, 4, 8, 16, 24))
    first = random.randrange(max(len(places) - count, 0) + 1)
    parts, at = [], 0
    for start, end in (*places[:first], *places[first + count :]):
        parts.append(text[at:start])
        at = end
    return "".join((*parts, text[at:]))


@lru_cache(maxsize=256)
def _instructions(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(found.span() for found in _INSTRUCTION.finditer(text))


def _replaced(text: str, found: re.Match[str] | None, by: str) -> str:
    return text if found is None else text[: found.start()] + by + text[found.end() :]


def _pick(pattern: re.Pattern[str], text: str, random: Random) -> re.Match[str] | None:
    """Return a match: the first after a random position, so that the text is not searched as a
    whole.
    """
    if not text:
        return None
    return pattern.search(text, random.randrange(len(text))) or pattern.search(text)


def _bytes(text: str, random: Random, others: Sequence[str]) -> str:
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 0, 1, 1, 2, 5, 12, 100)))
    piece = random.choice((random.choice(_FRAGMENTS), chr(random.randrange(256)), ""))
    return text[:start] + random.choice((piece, text[start:end] * 2)) + text[end:]


def _token(text: str, random: Random, others: Sequence[str]) -> str:
    found, other = _pick(_TOKEN, text, random), _pick(_TOKEN, random.choice(others), random)
    by = random.choice((other.group() if other else "", random.choice(_FRAGMENTS), ""))
    return _replaced(text, found, by)


def _number(text: str, random: Random, others: Sequence[str]) -> str:
    return _replaced(text, _pick(_NUMBER, text, random), random.choice(_NUMBERS))


def _register(text: str, random: Random, others: Sequence[str]) -> str:
    other = _pick(_REGISTER, text, random)
    by = other.group() if other else "%tid.x"
    return _replaced(text, _pick(_REGISTER, text, random), random.choice((by, by, "-5", "3")))


def _modifier(text: str, random: Random, others: Sequence[str]) -> str:
    other = _pick(_MODIFIER, random.choice((text, random.choice(others))), random)
    found = _pick(_MODIFIER, text, random)
    if found is None or other is None:
        return text
    both = found.group() + other.group(), other.group() + found.group()
    return _replaced(text, found, random.choice((other.group(), other.group(), "", *both)))


def _statement(text: str, random: Random, others: Sequence[str]) -> str:
    """Drop, double or move a statement, or copy one from another text."""
    found = _pick(_STATEMENT, text, random)
    if found is None:
        return text
    source = text if random.random() < 0.6 else random.choice(others)
    other = _pick(_STATEMENT, source, random)
    taken = other.group() if other else ""
    return _replaced(
        text, found, random.choice(("", found.group() * 2, found.group() + taken, taken))
    )


def _branch(text: str, random: Random, others: Sequence[str]) -> str:
    """Insert a label or a branch to one anywhere: loops, irreducible ones, unreachable code."""
    found, label = _pick(_STATEMENT, text, random), _pick(_LABEL, text, random)
    if found is None:
        return text
    name = label.group(1) if label and random.random() < 0.7 else f"Z{random.randrange(4)}"
    guard = random.choice(("", "@%p1 ", "@!%p0 ", "@%p2 "))
    new = random.choice((f"\n{name}:", f"\n{guard}bra {name};", f"\n{guard}bra.uni {name};"))
    return text[: found.end()] + new + text[found.end() :]


def _lines(text: str, random: Random, others: Sequence[str]) -> str:
    """Move, drop or repeat a run of lines."""
    first, last = sorted(random.randrange(len(text) + 1) for _ in "12")
    last = min(last, first + 600)
    begin, end = text.rfind("\n", 0, first) + 1, text.find("\n", last) + 1 or len(text)
    piece = text[begin:end]
    rest = text[:begin] + text[end:]
    if random.random() < 0.5:
        return text[:end] + piece * random.choice((1, 1, 3, _MOST_COPIES)) + text[end:]
    at = text.rfind("\n", 0, random.randrange(len(text) + 1)) + 1
    return rest if random.random() < 0.4 else rest[:at] + piece + rest[at:]


def _splice(text: str, random: Random, others: Sequence[str]) -> str:
    """Copy a run of lines from another text."""
    other = random.choice(others)
    start = random.randrange(len(other) + 1)
    piece = other[start : start + random.randrange(1, 400)]
    whole = "\n" + piece[piece.find("\n") + 1 : piece.rfind("\n") + 1]
    found = _pick(_LINE, text, random)
    at = found.end() if found else 0
    return text[:at] + whole + text[at:]


def _nest(text: str, random: Random, others: Sequence[str]) -> str:
    found = _pick(random.choice((_STATEMENT, _TOKEN)), text, random)
    opening, closing = random.choice((("{", "}"), ("(", ")"), ("[", "]"), ("-", ""), ("{{", "}")))
    count = random.choice((1, 1, 2, 33, 70))
    return _replaced(
        text, found, opening * count + (found.group() if found else "") + closing * count
    )


def _rename(text: str, random: Random, others: Sequence[str]) -> str:
    """Rename all occurrences of one name to another name."""
    names = [_pick(re.compile(r"[A-Za-z_$][\w$]{1,30}"), text, random) for _ in "12"]
    if None in names:
        return text
    old, new = (name.group() for name in names if name)
    return re.sub(rf"(?<![\w$]){re.escape(old)}(?![\w$])", lambda _: new, text)


CHANGES: tuple[Change, ...] = (
    *(_bytes, _token, _number, _number, _register, _register, _modifier, _modifier),
    *(_statement, _statement, _statement, _branch, _branch, _lines, _splice, _nest, _rename),
)
