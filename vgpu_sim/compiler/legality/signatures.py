"""The operands of an instruction, according to its rows in ``ptx.grammar.tables``."""

import re
from functools import cache, lru_cache

from vgpu_sim.compiler.legality.types import Type, find_type, widen
from vgpu_sim.compiler.ptx import grammar
from vgpu_sim.compiler.ptx.grammar.requirements import Condition, parse_condition
from vgpu_sim.compiler.ptx.grammar.tables import Statement, statements
from vgpu_sim.records import dataclass

_MAX_CACHED_SPELLINGS = 4096
_TOKEN = re.compile(
    r"(?P<written>=?)(?P<register>!?)(?P<special>%?)(?P<wider>~?)(?P<vector>v?)(?P<wider2>~?)"
    r"(?:\{(?P<count>[0-9]+)\})?"
    r"(?P<what>\[[a-z*:]*\]|h|p|P|imm|int|_|reg|any|rest|label|name|W?[0-9]|[a-z][a-z0-9]*)"
    r"(?P<selected>\.?)(?P<sink>_?)(?:\|(?P<pair>[pP]))?(?:@(?P<limits>[0-9.,%]+))?"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One operand of a form, as ``ptx.grammar.tables`` describes it.

    ``what`` is the table's token for the operand, or ``type`` if the field ``type`` describes
    the operand. ``count`` is the number of elements of a vector, 0 for none. ``pair`` is ``p`` if
    ``|`` and a predicate may follow the operand, and ``P`` if they must.
    """

    what: str
    type: Type | None = None
    written: bool = False
    register: bool = False
    special: bool = False
    wider: bool = False
    count: int = 0
    selected: bool = False
    sink: bool = False
    pair: str = ""
    limits: str = ""

    def is_in_limits(self, value: int) -> bool:
        """True if a constant with this value is allowed as the operand."""
        limits, _, step = self.limits.partition("%")
        if step and value % int(step):
            return False
        first, dots, last = limits.partition("..")
        if dots:
            return int(first) <= value <= int(last)
        return not limits or value in map(int, limits.split(","))


Signature = tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    types: int  # number of types among the modifiers; 0: any number
    applies: Condition
    lists: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=_MAX_CACHED_SPELLINGS)
def signatures(opcode: str, modifiers: tuple[str, ...]) -> tuple[Signature, ...]:
    """Return the possible operand lists of a form; empty if the tables do not state any.

    ``modifiers`` are the form's modifiers without their dots.
    """
    if grammar.arrange_modifiers(opcode, tuple(f".{word}" for word in modifiers)) is None:
        return ()  # an instruction of a PTX version newer than the tables
    types = [type_ for type_ in map(find_type, modifiers) if type_ is not None]
    for row in _rows().get(opcode, ()):
        if row.types in (0, len(types)) and row.applies(modifiers):
            return tuple(_signature(tokens, types, modifiers) for tokens in row.lists)
    return ()


def _signature(tokens: tuple[str, ...], types: list[Type], modifiers: tuple[str, ...]) -> Signature:
    hinted = "L2::cache_hint" in modifiers
    return tuple(_parse_one(token, types, modifiers) for token in tokens if token != "h" or hinted)


def _parse_one(token: str, types: list[Type], modifiers: tuple[str, ...]) -> Wanted:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ValueError(f"{token!r} does not describe an operand")
    kind, type_ = match["what"], None
    if kind == "h":
        kind, type_ = "type", find_type("u64")
    elif kind in ("p", "P"):
        kind, type_ = "type", find_type("pred")
    elif kind.startswith("bits"):
        bits = int(kind.removeprefix("bits"))
        kind, type_ = "type", Type("held", bits, f"b{bits}")
    elif kind[-1].isdigit():
        kind, type_ = "type", _type(kind, types)
    vectors = [int(word[1:]) for word in modifiers if word in ("v2", "v4", "v8")]
    return Wanted(
        kind,
        type_,
        bool(match["written"]),
        bool(match["register"]),
        bool(match["special"]),
        bool(match["wider"] or match["wider2"]),
        int(match["count"] or (vectors[0] if match["vector"] and vectors else 0)),
        bool(match["selected"]),
        bool(match["sink"]),
        match["pair"] or "",
        match["limits"] or "",
    )


def _type(kind: str, types: list[Type]) -> Type | None:
    if kind.isdigit():
        return types[int(kind) - 1]
    if kind.startswith("W"):
        return widen(types[int(kind[1:]) - 1])
    return find_type(kind)


@cache
def _rows() -> dict[str, tuple[_Row, ...]]:
    rows = {}
    for opcode, stated in statements().items():
        own_row_last = sorted(
            (statement for statement in stated if statement.operands),
            key=lambda statement: statement.is_row,
        )
        if own_row_last:
            rows[opcode] = tuple(map(_row, own_row_last))
    return rows


def _row(stated: Statement) -> _Row:
    types = next((int(word[1:]) for word in stated.words if word.startswith("#")), 0)
    words = [word for word in stated.words if not word.startswith("#")]
    lists = "" if stated.operands == "-" else stated.operands
    operands = tuple(tuple(alternative.split()) for alternative in lists.split(" / "))
    return _Row(types, parse_condition(words), operands)
