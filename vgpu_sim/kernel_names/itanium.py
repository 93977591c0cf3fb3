"""Demangling of C++ names (Itanium C++ ABI, section 5.1), within bounds of time and memory.

A substitution can name a text that has two substitutions, and so on: a name of 200 characters can
stand for gigabytes. Each production therefore returns text, which has a limit, and the number of
productions is limited too (ADR 213). Expressions that are not literals are not supported.
"""

import re
from typing import Final

from vgpu_sim.kernel_names.cursor import UnsupportedName
from vgpu_sim.kernel_names.itanium_table import OPERATORS
from vgpu_sim.kernel_names.itanium_types import Declaration, Name, Type, TypeReader, single

MAX_MANGLED: Final = 4096  # characters
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}")
_DECIMAL: Final = re.compile(r"([0-9]{0,4})_")
_DISCRIMINATOR: Final = re.compile(r"_(?:[0-9]|_[0-9]{2,6}_)")


def demangle(name: str) -> str:
    """Return the declaration that a mangled name stands for.

    Raises:
        UnsupportedName: if the name is not mangled, is malformed, is too long, or has parts that
            are not supported.
    """
    if not name.startswith("_Z") or len(name) > MAX_MANGLED:
        raise UnsupportedName("not a mangled name of supported length")
    reader = _Reader(name, 2)
    text = reader.encoding()
    suffix = name[reader.at :]
    if suffix and not suffix.startswith("."):
        raise reader.error()
    return f"{text} [clone {suffix}]" if suffix else text


class _Reader(TypeReader):
    """Reads one mangled name."""

    def encoding(self) -> str:
        """Read a function or another named object, and return its declaration."""
        name, result, parameter_text = self._within(self._declaration)
        if result is None:
            return name + parameter_text
        space = "" if result.declares else " "
        return self._bounded(f"{result.left}{space}{name}{parameter_text}{result.right}")

    def _declaration(self) -> Declaration:
        """Read a function or another named object. Return its name, the result that it states, and
        its parameters with its qualifiers.
        """
        name, has_result, qualifiers = self._name()
        if self.at >= len(self._text) or self._text[self.at] in "E.":
            return name, None, ""
        result = self._type_text() if has_result else None
        parameter_text = f"({self._parameter_list()}){qualifiers}"
        self._bounded(name + parameter_text)
        return name, result, parameter_text

    # Names

    def _name(self) -> Name:
        """Read a name. Return it, whether its function states a result, and its qualifiers."""
        if self._accept("N"):
            return self._nested()
        if self._accept("Z"):
            return self._local()
        if self._peek() == "S" and self._peek(2) != "St":
            value, is_template = self._substitution(), True
            name = single(value).text
        else:
            name = ("std::" if self._accept("St") else "") + self._unqualified("")
            is_template = self._peek() == "I"
            if is_template:
                self._remember(Type(name))
        if is_template:
            if self._peek() != "I":
                return name, False, ""
            name = self._bounded(_open(name) + self._template_arguments(outermost=True))
        return name, is_template, ""

    def _nested(self) -> Name:
        qualifiers = self._qualifiers()
        for code, text in (("R", " &"), ("O", " &&")):
            if self._accept(code):
                qualifiers += text
        name, last, has_result, is_member = "", "", False, True
        while not self._accept("E"):
            code = self._peek()
            has_result = False
            remember = True
            if code == "S" and self._peek(2) != "St" and not name:
                name = last = single(self._substitution()).text
                remember = False
            elif code == "T" and not name:
                name = last = single(self._template_parameter()).text
            elif code == "I" and name:
                name = _open(name) + self._template_arguments(outermost=True)
                has_result = is_member
            else:
                if not name and self._accept("St"):
                    name = "std"
                    if self._peek() == "E":
                        raise self.error()
                part = self._unqualified(last)
                is_member = code not in ("C", "D")
                last = part
                name = f"{name}::{part}" if name else part
            self._bounded(name)
            if remember and self._peek() != "E":
                self._remember(Type(name))
        if not name:
            raise self.error()
        return name, has_result, qualifiers

    def _local(self) -> Name:
        function, _, parameter_text = self._within(self._declaration)
        outer = function + parameter_text
        self._expect("E")
        if self._accept("s"):
            self._match(_DISCRIMINATOR)
            return self._bounded(f"{outer}::string literal"), False, ""
        if self._peek() == "d":
            raise self.error()
        name, has_result, qualifiers = self._name()
        self._match(_DISCRIMINATOR)
        return self._bounded(f"{outer}::{name}"), has_result, qualifiers

    def _unqualified(self, enclosing: str) -> str:
        """Read a name without its scope; ``enclosing`` is the class of a constructor."""
        self._accept("L")  # internal linkage
        two = self._peek(2)
        if self._peek().isdigit():
            text = self._source_name()
        elif two == "Ul":
            text = self._lambda()
        elif two == "Ut":
            self.at += 2
            text = f"{{unnamed type#{self._count()}}}"
        elif two in ("C1", "C2", "C3", "C4", "D0", "D1", "D2") and enclosing:
            self.at += 2
            plain = enclosing.partition("<")[0].partition("[")[0].rpartition("::")[2]
            text = plain if two[0] == "C" else "~" + plain
        elif two in OPERATORS:
            self.at += 2
            text = "operator" + OPERATORS[two]
        else:  # conversion operators, literal operators, structured bindings
            raise self.error()
        while self._accept("B"):
            text += f"[abi:{self._source_name()}]"
        return text

    def _source_name(self) -> str:
        match = self._match(_NUMBER)
        if match is None:
            raise self.error()
        end = self.at + int(match[0])
        text = self._text[self.at : end]
        if end > len(self._text) or not text.isprintable():
            raise self.error()
        self.at = end
        is_anonymous = text.startswith("_GLOBAL_") and text[8:9] in ("_", ".", "$")
        return "(anonymous namespace)" if is_anonymous and text[9:10] == "N" else text

    def _lambda(self) -> str:
        self.at += 2
        self._lambdas += 1
        parameters = self._parameter_list()
        self._lambdas -= 1
        self._expect("E")
        return self._bounded(f"{{lambda({parameters})#{self._count()}}}")

    def _count(self) -> int:
        match = self._match(_DECIMAL)
        if match is None:
            raise self.error()
        return int(match[1]) + 2 if match[1] else 1


def _open(name: str) -> str:
    """Separate ``operator<<`` from the template arguments that follow it."""
    return f"{name} " if name.endswith("<") else name
