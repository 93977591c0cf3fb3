"""The ``.target`` and ``.version`` that forms of instructions require, and the check of a file.

The requirements are stated in the instructions' rows; ``tables`` describes the notation.
"""

from collections.abc import Iterable
from functools import cache

from vgpu_sim.compiler.ptx.grammar import tables
from vgpu_sim.compiler.ptx.grammar.words import CLASSES
from vgpu_sim.records import dataclass

Version = tuple[int, int]

SPECIAL_REGISTERS = """
%clock64 : 20 2.0
%globaltimer %globaltimer_lo %globaltimer_hi : 30 3.1
%lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt : 20 2.0
%total_smem_size %dynamic_smem_size : 20 4.1
%aggr_smem_size : 90 8.1
%clusterid %nclusterid %cluster_ctaid %cluster_nctaid : 90 7.8
%cluster_ctarank %cluster_nctarank %is_explicit_cluster : 90 7.8
%current_graph_exec : 50 8.0
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a file: for a ``.target`` such as ``sm_90a``, the number 90 and the suffix
    ``a``.
    """

    number: int
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """What a form of an instruction requires of a file: a target and a PTX version.

    A file meets the requirement if its target matches one of ``targets`` (in the notation of
    ``tables``), and its PTX version is ``version`` or later.
    """

    targets: tuple[str, ...]
    version: Version

    def error(self, target: Target, version: Version) -> str:
        """Return why the file's target or version does not meet the requirement; "" if both meet
        it.

        The caller's message consists of the form's name and this text.
        """
        if not any(_meets(target, version, needed_target) for needed_target in self.targets):
            return f"needs {self._describe()}, the file's .target is {_name(target)}"
        if version < self.version:
            needed_version, own = ("{}.{}".format(*numbers) for numbers in (self.version, version))
            return f"needs PTX {needed_version}, the file's .version is {own}"
        return ""

    def _describe(self) -> str:
        (first, *other_targets) = self.targets
        if first.startswith("<"):
            return f"a .target older than sm_{first[1:].partition('@')[0]}"
        if first.isdigit() and not other_targets:
            return f".target sm_{first} or newer"
        return ".target " + " or ".join(f"sm_{target}" for target in self.targets)


def _name(target: Target) -> str:
    return f"sm_{target.number}{target.suffix}"


def _meets(target: Target, version: Version, needed_target: str) -> bool:
    if needed_target.startswith("<"):
        newer, _, since = needed_target[1:].partition("@")
        return target.number < int(newer) or version < _version(since)
    if needed_target.isdigit():
        return target.number >= int(needed_target)
    number = int(needed_target[:-1])
    if needed_target.endswith("a"):
        return target == Target(number, "a")
    same_family = target.number // 10 == number // 10 and target.number >= number
    return same_family and target.suffix in ("a", "f")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the modifiers of a form: words that must be among them, or must not be."""

    wanted: tuple[frozenset[str], ...]
    prefixes: tuple[str, ...]
    absent: frozenset[str]
    end: tuple[str, ...]

    def __call__(self, modifiers: tuple[str, ...]) -> bool:
        """True if ``modifiers``, without their dots, satisfy the condition."""
        return (
            (not self.end or modifiers[-len(self.end) :] == self.end)
            and all(not words.isdisjoint(modifiers) for words in self.wanted)
            and self.absent.isdisjoint(modifiers)
            and (not self.prefixes or any(word.startswith(self.prefixes) for word in modifiers))
        )


@dataclass(frozen=True, slots=True)
class _Row:
    applies: Condition
    need: Need


def needs(opcode: str, modifiers: tuple[str, ...]) -> list[Need]:
    """Return all requirements of an instruction; ``modifiers`` are without their dots."""
    return [row.need for row in _rows().get(opcode, ()) if row.applies(modifiers)]


def need_of_special(name: str) -> Need | None:
    """Return the requirement of the special register ``name``; None if it has none."""
    return _specials().get(name)


@cache
def _rows() -> dict[str, tuple[_Row, ...]]:
    row_table = {}
    for opcode, statements in tables.statements().items():
        rows = (
            _Row(parse_condition(statement.words), _need(statement.need))
            for statement in statements
            if statement.need
        )
        if needed := tuple(rows):
            row_table[opcode] = needed
    return row_table


@cache
def _specials() -> dict[str, Need]:
    need_of = {}
    for line in SPECIAL_REGISTERS.strip().splitlines():
        names, _, need = line.partition(" : ")
        need_of.update(dict.fromkeys(names.split(), _need(need)))
    return need_of


def _need(text: str) -> Need:
    targets, version = text.split()
    return Need(tuple(targets.split("/")), _version(version))


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def parse_condition(tokens: Iterable[str]) -> Condition:
    """Parse a condition on modifiers, whose notation ``tables`` describes.

    ``tokens`` are the words of the condition. A word such as ``#2``, which states a number of
    types, must not be among them.
    """
    required_words, prefixes, absent = [], [], set[str]()
    end: tuple[str, ...] = ()
    for token in tokens:
        if token.startswith("."):
            end = tuple(token[1:].split("."))
            continue
        words = set[str]()
        for word in token.split("|"):
            if word.startswith("!"):
                absent.add(word[1:])
            elif word.startswith("$"):
                words |= CLASSES[word[1:]]
            elif word.endswith("*"):
                prefixes.append(word[:-1])
            else:
                words.add(word)
        if "*" in token:
            prefixes += words
        elif words:
            required_words.append(frozenset(words))
    return Condition(tuple(required_words), tuple(prefixes), frozenset(absent), end)
