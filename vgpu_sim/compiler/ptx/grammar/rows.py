"""The notation of the grammar's tables, and the match of an instruction with a row.

A row is an instruction and its modifiers in order, without their dots: ``fma $rnd ftz? sat? f32``.
``$rnd`` is one of a class of words, ``a|b`` one of several, ``?`` marks an optional word, and
``sp::*`` matches every word that begins with ``sp::``; a row that ends in ``$$data`` is several
rows, one with each end of that name. Between ``[`` and ``]`` the order does not matter. A line that
begins with eight blanks continues the previous one; one that begins with ``#`` names the sections
of PTX ISA of the rows below. ``tables`` describes the text after a colon, and lines that begin with
two blanks.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from vgpu_sim.compiler.ptx.grammar.tables import forms
from vgpu_sim.compiler.ptx.grammar.words import CLASSES, TAILS, TYPES
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """A position in a row of the grammar that one modifier can fill."""

    words: frozenset[str]
    prefixes: tuple[str, ...]
    optional: bool

    def takes(self, word: str) -> bool:
        """True if the slot allows the modifier ``word``, given without its dot."""
        return word in self.words or (bool(self.prefixes) and word.startswith(self.prefixes))


Group = tuple[Slot, ...]
"""Slots that match in any order; a slot with a fixed position is a group of its own."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the grammar: one form of an instruction."""

    groups: tuple[Group, ...]

    def find_mismatch(self, modifiers: tuple[str, ...]) -> int | None:
        """Return None if the row matches ``modifiers``.

        Otherwise return the index of the first modifier that does not match, or the number of
        modifiers if one is missing at the end.
        """
        index = 0
        for group in self.groups:
            open_slots = list(group)
            while index < len(modifiers) and open_slots:
                word = modifiers[index]
                open_slot = next((slot for slot in open_slots if slot.takes(word)), None)
                if open_slot is None:
                    break
                open_slots.remove(open_slot)
                index += 1
            if not all(slot.optional for slot in open_slots):
                return index
        return None if index == len(modifiers) else index

    def arrange(self, fixed: int, modifiers: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return ``modifiers`` in the row's order; None if they do not match in any order.

        The first ``fixed`` modifiers must fill the first slots, in the given order. Modifiers
        that are types must also be given in the row's order.
        """
        slots = [slot for group in self.groups for slot in group]
        words: list[str] = [""] * len(slots)
        last = -1
        for index, word in enumerate(modifiers):
            place = _place(slots, words, word, types=index >= fixed)
            if place is None or (index < fixed) != (place < fixed):
                return None
            if index < fixed and place < last:
                return None
            last = place
            words[place] = word
        if any(not word and not slot.optional for slot, word in zip(slots, words, strict=True)):
            return None
        return tuple(word for word in words if word)

    def knows(self, word: str) -> bool:
        """True if some slot of the row allows the modifier ``word``."""
        return any(slot.takes(word) for group in self.groups for slot in group)


def _place(slots: list[Slot], words: list[str], word: str, *, types: bool) -> int | None:
    """Return the first free slot that allows a word; for a type the first free type slot."""
    for index, slot in enumerate(slots):
        if words[index]:
            continue
        if slot.takes(word):
            return index
        if types and word in TYPES and not slot.optional and not TYPES.isdisjoint(slot.words):
            return None
    return None


def read(text: str) -> Mapping[str, tuple[Row, ...]]:
    """Parse a table; return the rows of each instruction, by opcode.

    Raises:
        ValueError: a bracket is not closed, or a row refers to a class of words that does not
            exist.
    """
    rows: dict[str, list[Row]] = defaultdict(list)
    for line in forms(text):
        head, _, tail = line.partition("$$")
        for end in TAILS[tail] if tail else ("",):
            opcodes, *tokens = f"{head} {end}".split()
            row = Row(tuple(_groups(tokens)))
            for opcode in opcodes.split("|"):
                rows[opcode].append(row)
    return {opcode: tuple(row_list) for opcode, row_list in rows.items()}


def _groups(tokens: list[str]) -> Iterator[Group]:
    bracketed: list[Slot] | None = None
    for token in tokens:
        if token == "[":
            bracketed = []
        elif token == "]" and bracketed is not None:
            yield tuple(bracketed)
            bracketed = None
        elif bracketed is not None:
            bracketed.append(_slot(token))
        else:
            yield (_slot(token),)
    if bracketed is not None:
        raise ValueError(f"'[' is not closed in {tokens}")


def _slot(token: str) -> Slot:
    words: set[str] = set()
    prefixes: list[str] = []
    for word in token.removesuffix("?").split("|"):
        if word.startswith("$"):
            if word[1:] not in CLASSES:
                raise ValueError(f"there is no class of words {word}")
            words |= CLASSES[word[1:]]
        elif word.endswith("*"):
            prefixes.append(word[:-1])
        else:
            words.add(word)
    return Slot(frozenset(words), tuple(prefixes), token.endswith("?"))
