"""How instructions are recognised: patterns of opcode and modifiers, written as PTX ISA does.

``add{.rnd}{.ftz}{.sat}.f32`` is an opcode, then slots in order; braces make one optional. A slot
that ``CHOICES`` names takes one of its words, ``.type``, ``.dtype`` and ``.atype`` take the form's
own types, and any other takes only itself.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vgpu_sim.isa import Op

if TYPE_CHECKING:
    from vgpu_sim.compiler.lower.context import Context

UNSIGNED = ("u16", "u32", "u64")
SIGNED = ("s16", "s32", "s64")
BITS = ("b16", "b32", "b64")
FLOATS = ("f32", "f64")
INTEGERS = (*UNSIGNED, *SIGNED)
WORDS = (*BITS, *INTEGERS, *FLOATS)
UNARY, BINARY, TERNARY = "d, a", "d, a, b", "d, a, b, c"

CHOICES: dict[str, tuple[str, ...]] = {
    "rnd": ("rn", "rz", "rm", "rp"),
    "irnd": ("rni", "rzi", "rmi", "rpi"),
    "half": ("lo", "hi"),
    "cmp": (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "lo",
        "ls",
        "hi",
        "hs",
        "equ",
        "neu",
        "ltu",
        "leu",
        "gtu",
        "geu",
        "num",
        "nan",
    ),
    "bool": ("and", "or", "xor"),
    "vec": ("v2", "v4"),
    "space": ("global", "const", "shared", "shared::cta"),
    "written": ("global", "shared", "shared::cta"),
    "inside": ("global", "shared"),
    "window": ("global", "const", "shared"),
    "lcache": ("ca", "cg", "cs", "lu", "cv"),
    "scache": ("wb", "cg", "cs", "wt"),
    "evict": tuple(
        f"L1::{word}"
        for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
    ),
    "l2evict": ("L2::evict_normal", "L2::evict_first", "L2::evict_last"),
    "prefetch": ("L2::64B", "L2::128B", "L2::256B"),
}
"""Words that a slot takes, by slot name."""

_OWN_TYPES = frozenset({"type", "dtype", "atype"})
_SLOT = re.compile(r"\{\.([^}]+)\}|\.([A-Za-z0-9_:]+)")


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a modifier."""

    name: str
    words: frozenset[str]
    optional: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A recognised instruction: the word in each filled slot."""

    words: Mapping[str, str]

    def get(self, slot: str) -> str | None:
        return self.words.get(slot)

    def __getitem__(self, slot: str) -> str:
        return self.words[slot]

    def __contains__(self, slot: str) -> bool:
        return slot in self.words


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How far a form went along: the index of the modifier that it does not take."""

    index: int


Lower = Callable[["Context", "Form", Match], None]


@dataclass(frozen=True)
class Form:
    """One row of the binding: a PTX form, its operands, and what it becomes.

    ``isa`` is prose for the documentation where the opcode alone does not say it.
    """

    pattern: str
    operands: str
    op: Op
    lower: Lower
    types: tuple[str, ...] = ()
    isa: str = ""

    @property
    def opcode(self) -> str:
        return re.split(r"[.{]", self.pattern, maxsplit=1)[0]

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        found = []
        for optional, required in _SLOT.findall(self.pattern):
            name = optional or required
            words = self.types if name in _OWN_TYPES else CHOICES.get(name, (name,))
            found.append(Slot(name, frozenset(words), bool(optional)))
        return tuple(found)

    @cached_property
    def operand_count(self) -> int:
        return len(self.operands.split(", ")) if self.operands else 0

    def match(self, modifiers: tuple[str, ...]) -> Match | Mismatch:
        """Assign each modifier (with its dot) to a slot, in order."""
        words: dict[str, str] = {}
        index = 0
        for slot in self.slots:
            word = modifiers[index][1:] if index < len(modifiers) else ""
            if word in slot.words:
                words[slot.name] = word
                index += 1
            elif not slot.optional:
                return Mismatch(index)
        return Match(words) if index == len(modifiers) else Mismatch(index)
