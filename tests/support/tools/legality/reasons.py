"""Why a text was rejected: the messages of compiler and assembler, in one list of causes.

The assembler says "Arguments mismatch" for most errors of operands, names that are not declared
among them, so that the causes are no finer than that. ``CAUSES`` is in order: the first pattern
that a message contains determines its cause.
"""

import re
from collections.abc import Iterable, Iterator

from support.tools.legality.compare import Verdict

CAUSES = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
        (
            "target",
            r"needs \.target|needs a \.target|not supported on \.target|requires \.target|\.target sm_",
        ),
        ("version", r"needs PTX|requires PTX ISA \.version"),
        ("declared twice", r"declared twice|Duplicate definition"),
        (
            "no such instruction",
            r"is not an instruction of PTX|Not a name of any known instruction",
        ),
        ("syntax", r"^expected '.*', found|Parsing error"),
        (
            "operand",
            r"[Aa]rgument|[Oo]perand|is not declared|is not a register|expected a register"
            r"|destination is not|is a predicate|is not a predicate|[Pp]redicate expression"
            r"|Predicate output|has \d+ bits|constant|cannot hold|cannot be used as|is read-only"
            r"|[Ss]pecial register|discard|[Rr]esult (vector|register)|[Vv]ector (expected|size)"
            r"|elements|expected an address|expected a predicate|address operand|out of range"
            r"|does not exist|in \S+ space|[Ss]tate space mismatch|takes .* operands|memory operand",
        ),
        (
            "modifier",
            r"has no modifier|cannot stand after|needs a further modifier|[Mm]odifier|qualifier"
            r"|instruction types? specified|Duplicate \.|Multiple |flags set|state spaces specified"
            r"|is required for|cannot be combined|requires \.\S+ (or \.\S+ )?(type|space)|with type",
        ),
    )
)


def cause(message: str) -> str:
    """Return the cause that a message names; the message itself if no pattern is in it."""
    found = (name for name, pattern in CAUSES if pattern.search(message))
    return next(found, message)


def both_causes(found: Iterable[Verdict]) -> Iterator[tuple[str, str, Verdict]]:
    """Yield both causes of each text that compiler and assembler reject."""
    for one in found:
        if one.ours and one.theirs:
            yield cause(one.ours), cause(one.theirs), one


def agreement(found: Iterable[Verdict]) -> float:
    """Return the share of texts rejected by both for which they name the same cause."""
    same = [own == other for own, other, _ in both_causes(found)]
    return sum(same) / len(same)
