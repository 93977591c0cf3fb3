"""Recognition of instructions: patterns of opcode and modifiers in PTX ISA's notation.

``add{.rnd}{.ftz}{.sat}.f32`` is an opcode, then slots in order; braces make one optional. A slot
in ``CHOICES`` matches one of its words, ``.type``, ``.dtype`` and ``.atype`` match the form's
types, and any other matches only itself.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from vgpu_sim.compiler.ptx.grammar import words
from vgpu_sim.isa import Op
from vgpu_sim.records import dataclass

if TYPE_CHECKING:
    from vgpu_sim.compiler.lower.context import Context

UNSIGNED = ("u16", "u32", "u64")
SIGNED = ("s16", "s32", "s64")
BITS = ("b16", "b32", "b64")
FLOATS = ("f32", "f64")
INTEGERS = (*UNSIGNED, *SIGNED)
WORDS = (*BITS, *INTEGERS, *FLOATS)
UNARY, BINARY, TERNARY = "d, a", "d, a, b", "d, a, b, c"

WGMMA_SHAPES = ("wgmma8", "wgmma16", "wgmma32", "wgmma32s", "wgmma64", "wgmma64s", "wgmma256")

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
    "frnd2": ("rn", "rz"),
    "frnd3": ("rz", "rp"),
    "f8x2": ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2"),
    "f8x4": ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"),
    "halves": ("f16x2", "bf16x2"),
    "setdest": ("u16", "s16", "u32", "s32", "f16", "bf16", "f32"),
    "packdest": ("u32", "s32", "f16x2", "bf16x2"),
    "property": ("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
    "bool": ("and", "or", "xor"),
    "combine": ("and", "or"),
    "over": ("clamp", "wrap"),
    "op2": ("add", "min", "max"),
    "order": ("eq", "ne", "lt", "le", "gt", "ge"),
    "scale": ("shr7", "shr15"),
    "permute": ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"),
    "vec": ("v2", "v4", "v8"),
    "space": ("global", "const", "shared", "shared::cta", "shared::cluster", "local"),
    "shuffle": ("up", "down", "bfly", "idx"),
    "vote": ("all", "any", "uni"),
    "arithmetic": ("add", "min", "max"),
    "extremum": ("min", "max"),
    "truth": ("and", "or"),
    "logic": ("and", "or", "xor"),
    "inside": (
        "global",
        "const",
        "local",
        "param",
        "param::entry",
        "shared",
        "shared::cta",
        "shared::cluster",
    ),
    "window": (
        "global",
        "const",
        "param",
        "param::entry",
        "local",
        "shared",
        "shared::cta",
        "shared::cluster",
    ),
    "line": ("L1", "L2"),
    "primary": ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"),
    "secondary": ("L2::evict_first", "L2::evict_unchanged"),
    "lcache": ("ca", "cg", "cs", "lu", "cv"),
    "scache": ("wb", "cg", "cs", "wt"),
    "evict": tuple(
        f"L1::{word}"
        for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
    ),
    "l2evict": ("L2::evict_normal", "L2::evict_first", "L2::evict_last"),
    "prefetch": ("L2::64B", "L2::128B", "L2::256B"),
    "sem": ("relaxed", "acquire", "release", "acq_rel"),
    "scope": ("cta", "cluster", "gpu", "sys"),
    "on": ("global", "shared", "shared::cta", "shared::cluster"),
    "written": ("global", "shared", "shared::cta", "shared::cluster", "local"),
    "update": ("and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max"),
    "reduction": ("and", "or", "xor", "add", "inc", "dec", "min", "max"),
    "elements": ("v2", "v4", "v8"),
    "own": ("shared", "shared::cta"),
    "within": ("shared", "shared::cta", "shared::cluster"),
    "near": ("shared::cta", "shared::cluster"),
    "fold": ("and", "or", "xor", "add", "inc", "dec", "min", "max"),
    "hint": ("prefetch",),
    "of_map": ("const", "param", "param::entry"),
    "field": (
        "global_address",
        "rank",
        "box_dim",
        "global_dim",
        "global_stride",
        "element_stride",
        "elemtype",
        "interleave_layout",
        "swizzle_mode",
        "swizzle_atomicity",
        "fill_mode",
    ),
    "mode": ("tile",),
    "axis": ("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"),
    "boxes": ("tile", "tile::gather4"),
    "columns": ("im2col", "im2col::w", "im2col::w::128"),
    "stored": ("tile", "tile::scatter4", "im2col_no_offs", "im2col_no_offs::w"),
    "updated": ("tile", "im2col_no_offs"),
    "dim": ("1d", "2d", "3d", "4d", "5d"),
    "loading": ("relaxed", "acquire"),
    "storing": ("relaxed", "release"),
    "level": ("cta", "gl", "sys"),
    "fencing": ("sc", "acq_rel", "acquire", "release"),
    "ordering": ("acquire", "release"),
    "narrow": ("b4x16_p64", "b6x16_p32"),
    "sparse": ("sp", "sp::ordered_metadata"),
    "matrices": ("x1", "x2", "x4"),
    "layout": ("row", "col"),
    "alayout": ("row", "col"),
    "blayout": ("row", "col"),
    "tile": ("global", "shared", "shared::cta"),
    **{
        name: tuple(sorted(words.CLASSES[name], key=lambda word: (len(word), word)))
        for name in WGMMA_SHAPES
    },
    "geometry": ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube"),
    "gathered": ("2d", "a2d", "cube", "acube"),
    "channel": ("r", "g", "b", "a"),
    "texel": ("u32", "s32", "f32", "f16"),
    "packed": ("f16x2",),
    "coordinate": ("s32", "f32"),
    "of_level": ("level",),
    "surface": ("1d", "2d", "3d", "a1d", "a2d"),
    "reduced": ("1d", "2d", "3d"),
    "outside": ("trap", "clamp", "zero"),
    "combined": ("add", "min", "max"),
    "opaque": ("texref", "samplerref", "surfref"),
    "size_of": ("width", "height", "depth"),
    "property_of": (
        "width",
        "height",
        "depth",
        "array_size",
        "channel_data_type",
        "channel_order",
        "num_mipmap_levels",
        "num_samples",
        "normalized_coords",
        "force_unnormalized_coords",
        "filter_mode",
        "addr_mode_0",
        "addr_mode_1",
        "addr_mode_2",
        "memory_layout",
    ),
    "width": ("u32", "u64"),
    "group": ("cta_group::1", "cta_group::2"),
    "lanes": ("32x32b", "16x64b", "16x128b", "16x256b"),
    "count": ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"),
    "product": ("kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8"),
    "scaled": ("kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"),
    "scales": ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"),
    "collector": tuple(f"collector::a::{word}" for word in ("discard", "lastuse", "fill", "use")),
    "buffer": tuple(
        f"collector::b{number}::{word}"
        for number in range(4)
        for word in ("discard", "lastuse", "fill", "use")
    ),
    "restriction": ("sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
}
"""For each slot name, the modifiers that the slot matches."""

_OWN_TYPES = frozenset({"type", "dtype", "atype", "btype"})
_PLACED = words.TYPES | {"row", "col", *CHOICES["space"]}
"""Modifiers of single operands: types, layouts and state spaces."""

_SLOT = re.compile(r"\{\.([^}]+)\}|\.([A-Za-z0-9_:]+)")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one modifier in the pattern of a form."""

    name: str
    words: frozenset[str]
    optional: bool


@dataclass(frozen=True, slots=True)
class Match:
    """The result of matching an instruction with a form. It maps each filled slot to its
    modifier.
    """

    words: Mapping[str, str]

    def get(self, slot: str) -> str | None:
        return self.words.get(slot)

    def __getitem__(self, slot: str) -> str:
        return self.words[slot]

    def __contains__(self, slot: str) -> bool:
        return slot in self.words


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A failed match of an instruction with a form: the index of the first modifier that
    differs.
    """

    index: int


Lower = Callable[["Context", "Form", Match], None]


@dataclass(frozen=True)
class Form:
    """One row of the binding: a PTX form, its operands, and the instructions to which it is
    lowered.

    ``isa`` describes the lowering in the documentation, for forms that the opcode alone does not
    explain. With ``any_order``, modifiers are matched in any order. No modifier may then match
    several slots. ``ptx.grammar`` has already checked whether PTX allows the order.
    """

    pattern: str
    operands: str
    op: Op
    lower: Lower
    types: tuple[str, ...] = ()
    isa: str = ""
    any_order: bool = False

    @property
    def opcode(self) -> str:
        return re.split(r"[.{]", self.pattern, maxsplit=1)[0]

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        slots = []
        for optional, required in _SLOT.findall(self.pattern):
            name = optional or required
            words = self.types if name in _OWN_TYPES else CHOICES.get(name, (name,))
            slots.append(Slot(name, frozenset(words), bool(optional)))
        return tuple(slots)

    @cached_property
    def operand_count(self) -> int:
        return len(self.operands.split(", ")) if self.operands else 0

    def match(self, modifiers: tuple[str, ...]) -> Match | Mismatch:
        """Assign each modifier (with its dot) to a slot. Try the given order first, then any other
        order.

        The parser has already enforced the order where PTX prescribes one.
        """
        if self.any_order:
            return _assign_in_any_order(self.slots, modifiers)
        outcome = _assign_in_order(self.slots, modifiers)
        return (
            outcome if isinstance(outcome, Match) else self._match_unordered(modifiers) or outcome
        )

    def match_rearranged(self, modifiers: tuple[str, ...]) -> Match | None:
        """Assign modifiers that are in an order that ``match`` does not know: those that belong to
        an operand by their place in order, and the others in any order.
        """
        placed, unplaced = list[str](), list[str]()
        for modifier in modifiers:
            (placed if modifier[1:] in _PLACED else unplaced).append(modifier)
        in_order = tuple(slot for slot in self.slots if slot.words & _PLACED)
        free_slots = tuple(slot for slot in self.slots if not slot.words & _PLACED)
        first = _assign_in_order(in_order, tuple(placed))
        second = _assign_in_any_order(free_slots, tuple(unplaced))
        if isinstance(first, Mismatch) or isinstance(second, Mismatch):
            return None
        return Match({**first.words, **second.words})

    def _match_unordered(self, modifiers: tuple[str, ...]) -> Match | None:
        """Match the modifiers before the last slots, which are required and in order (the
        types).
        """
        last = max((n for n, slot in enumerate(self.slots) if slot.optional), default=-1) + 1
        head, tail = self.slots[:last], self.slots[last:]
        cut = len(modifiers) - len(tail)
        if cut < 0:
            return None
        words: dict[str, str] = {}
        for modifier in modifiers[:cut]:
            word = modifier[1:]
            free = (slot for slot in head if slot.name not in words and word in slot.words)
            slot = next(free, None)
            if slot is None:
                return None
            words[slot.name] = word
        for slot, modifier in zip(tail, modifiers[cut:], strict=True):
            if modifier[1:] not in slot.words:
                return None
            words[slot.name] = modifier[1:]
        missing = any(not slot.optional and slot.name not in words for slot in head)
        return None if missing else Match(words)


def _assign_in_order(slots: tuple[Slot, ...], modifiers: tuple[str, ...]) -> Match | Mismatch:
    words: dict[str, str] = {}
    index = 0
    for slot in slots:
        word = modifiers[index][1:] if index < len(modifiers) else ""
        if word in slot.words:
            words[slot.name] = word
            index += 1
        elif not slot.optional:
            return Mismatch(index)
    return Match(words) if index == len(modifiers) else Mismatch(index)


def _assign_in_any_order(slots: tuple[Slot, ...], modifiers: tuple[str, ...]) -> Match | Mismatch:
    words: dict[str, str] = {}
    left = list(slots)
    for index, modifier in enumerate(modifiers):
        slot = next((slot for slot in left if modifier[1:] in slot.words), None)
        if slot is None:
            return Mismatch(index)
        left.remove(slot)
        words[slot.name] = modifier[1:]
    missing = any(not slot.optional for slot in left)
    return Mismatch(len(modifiers)) if missing else Match(words)
