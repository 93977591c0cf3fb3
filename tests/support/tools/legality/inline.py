"""Inline assembly of C++ headers, such as CUTLASS's: each becomes a kernel.

Operands become registers of the types that the constraints name, and constants become 1. Texts
that the preprocessor changes, such as those with an argument of a macro, are left out and counted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.tools.legality import compare
from support.tools.legality.assembler import Assembler, Kernel
from support.tools.legality.forms import LATEST

TARGETS = ("80", "90a", "100a", "120a", "103a")
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_BEGIN = re.compile(r"\b(?:asm|__asm__)\b\s*(?:volatile|__volatile__)?\s*\(")
_TOKEN = re.compile(rf"{_STRING}|::|[()\[\]{{}}:]|[^\"()\[\]{{}}:]+")
_OPERAND = re.compile(r'"[=+]?\s*([a-z])"\s*\(')
_PLACE = re.compile(r"%(%|\d+)")
_TYPES = {"h": "b16", "r": "b32", "f": "f32", "l": "b64", "d": "f64", "q": "b128"}


class NotPlain(Exception):
    """The text depends on more than its operands."""


@dataclass(frozen=True, slots=True)
class Inline:
    """One inline assembly: where it is, and the text of a kernel with it alone."""

    place: str
    text: str

    def on(self, target: str) -> Kernel:
        """Return the kernel for a target."""
        return Kernel(target, LATEST, self.text)


@dataclass(frozen=True, slots=True)
class Result:
    """An assembly, the first target on which the assembler takes it ("" for none), and why our
    compiler refuses it there.
    """

    inline: Inline
    target: str
    refusal: str


def find(folder: Path, within: str = "") -> tuple[list[Inline], int]:
    """Return the distinct assemblies in a folder's headers, and how many are not plain.

    ``within`` is a text that the path of a header has to contain.
    """
    found: dict[str, Inline] = {}
    left_out = 0
    for path in sorted(folder.rglob("*.h*")):
        name = str(path.relative_to(folder))
        if within not in name:
            continue
        for line, text in _assemblies(path.read_text(errors="replace")):
            try:
                kernel = make_kernel(text)
            except NotPlain:
                left_out += 1
                continue
            found.setdefault(kernel, Inline(f"{name}:{line}", kernel))
    return list(found.values()), left_out


def _assemblies(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the content of each pair of parentheses after ``asm``."""
    plain = _COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), source)
    for begin in _BEGIN.finditer(plain):
        depth = 1
        for token in _TOKEN.finditer(plain, begin.end()):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if not depth:
                yield plain.count("\n", 0, begin.start()) + 1, plain[begin.end() : token.start()]
                break


def make_kernel(assembly: str) -> str:
    """Return a kernel with one assembly, given as between the parentheses of ``asm``.

    Raises:
        NotPlain: the text is not string literals alone, or a constraint is not a register.
    """
    text, *operands = _sections(assembly)
    literals = re.findall(_STRING, text)
    if re.sub(_STRING, "", text).strip() or not literals:
        raise NotPlain(text)
    code = "".join(one[1:-1] for one in literals).replace("\\n", "\n").replace("\\t", "\t")
    names, declared = [], []
    for index, kind in enumerate(_OPERAND.findall(" ".join(operands[:2]))):
        if kind == "n":
            names.append("1")
        elif kind in _TYPES:
            names.append(f"%{kind}{index}")
            declared.append(f".reg .{_TYPES[kind]} {names[-1]};")
        else:
            raise NotPlain(kind)
    try:
        code = _PLACE.sub(lambda found: "%" if found[1] == "%" else names[int(found[1])], code)
    except IndexError as error:
        raise NotPlain(code) from error
    end = "" if not code.strip() or code.rstrip().endswith((";", "}")) else ";"
    return f".visible .entry KERNEL()\n{{ {' '.join(declared)}\n{code}{end}\nret;\n}}\n"


def _sections(assembly: str) -> list[str]:
    """Split at the colons outside of parentheses and strings; ``::`` is an empty section."""
    sections = [""]
    depth = 0
    for token in _TOKEN.findall(assembly):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token, 0)
        if depth == 0 and token in {":", "::"}:
            sections += [""] * len(token)
        else:
            sections[-1] += token
    return sections


def results(found: Sequence[Inline], assembler: Assembler) -> list[Result]:
    """Return for each assembly where it is legal, and whether our compiler takes it there."""
    legal: dict[int, str] = {}
    for target in TARGETS:
        rest = [index for index in range(len(found)) if index not in legal]
        said = assembler.refusals([found[index].on(target) for index in rest])
        legal |= {index: target for index, why in zip(rest, said, strict=True) if not why}
    made = []
    for index, one in enumerate(found):
        target = legal.get(index, "")
        kernel = one.on(target)
        made.append(
            Result(one, target, target and (compare.ours(kernel) or compare.refusal(kernel)))
        )
    return made
