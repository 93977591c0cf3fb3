"""The instructions, modifiers and special registers of PTX: anything else is a syntax error.

The tables follow the syntax sections of PTX ISA 9.4. A row contains the spelling of an
instruction, its operands, and the targets and versions that have it (``tables``). Where PTX
lists dozens of forms of one instruction (matrices, bulk copies), one row here allows all of them
and some that do not exist; these are refused as not supported. No row refuses what PTX allows.
"""

from functools import cache, lru_cache

from vgpu_sim.compiler.ptx.grammar import rows
from vgpu_sim.compiler.ptx.grammar.registers import SPECIAL_REGISTERS
from vgpu_sim.compiler.ptx.grammar.tables import TABLES
from vgpu_sim.compiler.ptx.grammar.words import FLAGS

LATEST_VERSION = (9, 4)
"""The PTX ISA version from which the tables are taken; a newer file may have more instructions."""

_MAX_CACHED_SPELLINGS = 4096  # a real file has a few hundred; a tenant may write any number

_WAITS = "test_wait try_wait parity check_layout"
_MBARRIER = "init inval pending_count expect_tx complete_tx arrive arrive_drop noComplete"
_MBARRIER += f" {_WAITS}"
_HALVES = frozenset({"lo", "hi", "wide"})
_HEADS = {
    **dict.fromkeys(("mul", "mad", "madc", "mul24", "mad24", "clmad", "dp2a"), _HALVES),
    "shf": frozenset({"l", "r"}),
    "div": frozenset({"full"}),
    "createpolicy": frozenset({"fractional", "range", "cvt"}),
    "cvta": frozenset({"to"}),
    "fence": frozenset({"proxy"}),
    "membar": frozenset({"proxy"}),
    "cvt": frozenset({"pack"}),
    "setmaxnreg": frozenset({"inc", "dec"}),
    "pmevent": frozenset({"mask"}),
    **dict.fromkeys(
        ("bar", "barrier"), frozenset({"cta", "warp", "cluster", "sync", "arrive", "red", "wait"})
    ),
    "mbarrier": frozenset(_MBARRIER.split()),
}
"""Modifiers that are part of the instruction's name and must keep their position."""

_MATRICES = "wmma ldmatrix stmatrix wgmma tcgen05"
_IN_ORDER = f"{_MATRICES} cp tensormap multimem fabric clusterlaunchcontrol call brx"
_ORDERED = frozenset(f"{_IN_ORDER} tex tld4 txq suld sust sured suq".split())
"""Instructions whose modifiers must be in the order of their rows."""


@cache
def instructions() -> dict[str, tuple[rows.Row, ...]]:
    """Return the forms of every instruction, by opcode."""
    rows_of: dict[str, tuple[rows.Row, ...]] = {}
    for table in TABLES:
        for opcode, forms in rows.read(table).items():
            rows_of[opcode] = rows_of.get(opcode, ()) + forms
    return rows_of


@lru_cache(maxsize=_MAX_CACHED_SPELLINGS)
def arrange_modifiers(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the modifiers of an instruction in the order of the grammar.

    Return None if they match no form of the instruction. Assemblers accept most modifiers in any
    order, and accept repeated flags. Modifiers that are part of the instruction's name, such as
    ``.wide`` in ``mul``, must keep their place.
    """
    words = tuple(modifier[1:] for modifier in modifiers)
    forms = instructions().get(opcode, ())
    if any(form.find_mismatch(words) is None for form in forms):
        return modifiers
    if opcode in _ORDERED:
        return None
    heads = _HEADS.get(opcode, frozenset())
    fixed = next((n for n, word in enumerate(words) if word not in heads), len(words))
    if not heads.isdisjoint(words[fixed:]):
        return None
    once = [word for n, word in enumerate(words) if word not in FLAGS or word not in words[:n]]
    for form in forms:
        arranged = form.arrange(fixed, tuple(once))
        if arranged is not None:
            return tuple(f".{word}" for word in arranged)
    return None


@lru_cache(maxsize=_MAX_CACHED_SPELLINGS)
def first_error(opcode: str, modifiers: tuple[str, ...]) -> tuple[int, str] | None:
    """Check a spelling such as ``ld``, ``(".global", ".u32")`` against the grammar.

    Return None if it is PTX, else the position and the message of the first error. The position
    is the index of a modifier, -1 for the opcode, or the number of modifiers if one is missing.
    """
    forms = instructions().get(opcode)
    if forms is None:
        return -1, f"{opcode!r} is not an instruction of PTX"
    if arrange_modifiers(opcode, modifiers) is not None:
        return None
    words = tuple(modifier[1:] for modifier in modifiers)
    farthest = 0
    for form in forms:
        farthest = max(farthest, form.find_mismatch(words) or 0)
    prefix = opcode + "".join(modifiers[:farthest])
    if farthest == len(words):
        return farthest, f"{prefix!r} needs a further modifier"
    for index, word in enumerate(words):
        if not any(form.knows(word) for form in forms):
            return index, f"{opcode!r} has no modifier {modifiers[index]!r}"
    return farthest, f"{modifiers[farthest]!r} cannot stand after {prefix!r}"


def is_special(name: str) -> bool:
    """True if PTX defines a special register of that name (without component)."""
    return name in SPECIAL_REGISTERS


__all__ = [
    "LATEST_VERSION",
    "SPECIAL_REGISTERS",
    "arrange_modifiers",
    "first_error",
    "instructions",
    "is_special",
]
