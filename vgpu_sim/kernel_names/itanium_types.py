"""Types and template arguments of mangled names (Itanium C++ ABI, section 5.1.5)."""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.kernel_names.cursor import MAX_LIST, Cursor, UnsupportedName
from vgpu_sim.kernel_names.itanium_table import BUILTINS, STANDARD, SUFFIXES
from vgpu_sim.records import dataclass

_SEQUENCE: Final = re.compile(r"([0-9A-Z]{0,3})_")
_DECIMAL: Final = re.compile(r"([0-9]{0,4})_")
_INTEGER: Final = re.compile(r"(n?)([0-9]{1,40})E")
_BITS: Final = re.compile(r"([0-9a-f]{1,32})E")


@dataclass(frozen=True, slots=True)
class Type:
    """A type as the texts before and after the declared name, ``declares`` is "" or the kind of
    type to which a pointer needs parentheses: "function" or "array".
    """

    left: str
    right: str = ""
    declares: str = ""

    @property
    def text(self) -> str:
        return self.left + self.right


class Pack(tuple["Type", ...]):
    """The types of a parameter pack."""

    __slots__ = ()


Value = Type | Pack
# A name, whether its function states a result, and its qualifiers.
Name = tuple[str, bool, str]
# A name, the result that its function states, and its parameters with its qualifiers.
Declaration = tuple[str, Type | None, str]


class TypeReader(Cursor):
    """Reads types. A subclass reads the names in them. Methods are named after the productions of
    the ABI's grammar.
    """

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text, at)
        self._known: list[Value] = []  # substitutions
        self._parameters: list[Value] = []  # of the innermost template
        self._lambdas = 0

    @abstractmethod
    def _declaration(self) -> Declaration:
        """Read a function or another named object."""

    @abstractmethod
    def _name(self) -> Name:
        """Read a name with its scope."""

    @abstractmethod
    def _unqualified(self, enclosing: str) -> str:
        """Read a name without its scope; ``enclosing`` is the class of a constructor."""

    @abstractmethod
    def _source_name(self) -> str:
        """Read an identifier."""

    # References to earlier parts

    def _remember(self, value: Value) -> None:
        self._known.append(value)

    def _substitution(self) -> Value:
        self._expect("S")
        code = self._peek()
        if code in STANDARD:
            self.at += 1
            return Type(STANDARD[code])
        match = self._match(_SEQUENCE)
        place = int(match[1], 36) + 1 if match and match[1] else 0
        if match is None or place >= len(self._known):
            raise self.error()
        return self._known[place]

    def _template_parameter(self) -> Value:
        self._expect("T")
        match = self._match(_DECIMAL)
        if match is None:
            raise self.error()
        place = int(match[1]) + 1 if match[1] else 0
        if self._lambdas:
            return Type(f"auto:{place + 1}")
        if place >= len(self._parameters):
            raise self.error()
        return self._parameters[place]

    # Template arguments

    def _template_arguments(self, *, outermost: bool) -> str:
        self._expect("I")
        values: list[Value] = []
        while not self._accept("E"):
            values += self._within(self._template_argument)
        if outermost and not self._lambdas:
            self._parameters = values
        return self._bounded(f"<{self._list_of(values)}>")

    def _template_argument(self) -> list[Value]:
        if self._accept("J"):
            pack: list[Type] = []
            while not self._accept("E"):
                for value in self._within(self._template_argument):
                    pack += value if isinstance(value, Pack) else [value]
                if len(pack) > MAX_LIST:
                    raise UnsupportedName("a parameter pack with too many types")
            return [Pack(pack)]
        if self._accept("L"):
            return [self._literal()]
        if self._accept("X"):
            self._expect("adL_Z")  # the address of a function
            name = self._within(self._declaration)[0]
            self._expect("EE")
            return [Type(self._bounded(f"&{name}"))]
        return [self._type()]

    def _literal(self) -> Type:
        if self._accept("_Z"):
            name = self._within(self._declaration)[0]
            self._expect("E")
            return Type(name)
        if self._accept("DnE") or self._accept("Dn0E"):
            return Type("nullptr")
        code = self._peek()
        of_type = self._type_text().text
        match = self._match(_BITS) if code in "fdeg" else self._match(_INTEGER)
        if match is None:
            raise self.error()
        if code in "fdeg":
            return Type(f"({of_type})[{match[1]}]")
        number = ("-" if match[1] else "") + match[2]
        if code == "b" and number in ("0", "1"):
            return Type("true" if number == "1" else "false")
        return Type(number + SUFFIXES[code] if code in SUFFIXES else f"({of_type}){number}")

    # Types

    def _type_text(self) -> Type:
        return single(self._type())

    def _type(self) -> Value:
        return self._within(self._read_type)

    def _read_type(self) -> Value:
        code, two = self._peek(), self._peek(2)
        if code in BUILTINS or two in BUILTINS:
            key = code if code in BUILTINS else two
            self.at += len(key)
            return Type(BUILTINS[key])
        if code in ("r", "V", "K"):
            qualifiers = self._qualifiers()
            value = self._map(self._type(), lambda one: _qualified(one, qualifiers))
        elif code in ("P", "R", "O"):
            self.at += 1
            sign = {"P": "*", "R": "&", "O": "&&"}[code]
            value = self._map(self._type(), lambda one: _pointer(one, sign))
        elif code == "U":
            self.at += 1
            vendor = self._source_name()
            value = self._map(self._type(), lambda one: _qualified(one, f" {vendor}"))
        elif code == "F":
            value = self._function()
        elif code == "A":
            value = self._array()
        elif code == "M":
            value = self._member_pointer()
        elif two == "Dp":
            self.at += 2
            return self._type()
        elif two == "Dv":
            value = self._vector()
        elif two == "DF":
            return self._float_type()
        else:
            return self._named_type()
        self._remember(value)
        return value

    def _named_type(self) -> Value:
        code = self._peek()
        if code == "T":
            value = self._template_parameter()
            self._remember(value)
        elif code == "S" and self._peek(2) != "St":
            value = self._substitution()
        elif code == "u":
            self.at += 1
            value = Type(self._source_name())
            self._remember(value)
        elif code == "S" or code.isdigit() or code in ("N", "Z"):
            name, is_template, _ = self._class_name()
            value = Type(name)
            self._remember(value)
            if is_template:
                return value
        else:
            raise self.error()
        if self._peek() == "I":
            arguments = self._template_arguments(outermost=False)
            value = self._map(value, lambda one: Type(one.text + arguments))
            self._remember(value)
        return value

    def _class_name(self) -> Name:
        """Read the name of a class; template arguments in it are not those of the function."""
        parameters = self._parameters
        if self._peek() in ("N", "Z"):
            name = self._name()
        else:
            name = ("std::" if self._accept("St") else "") + self._unqualified(""), False, ""
        self._parameters = parameters
        return name

    def _function(self) -> Type:
        self._expect("F")
        self._accept("Y")
        result = self._type_text()
        parameters = self._parameter_list()
        self._expect("E")
        space = "" if result.left.endswith("(") else " "
        right = f"({parameters}){result.right}"
        return Type(self._bounded(result.left + space), self._bounded(right), "function")

    def _array(self) -> Value:
        self._expect("A")
        match = self._match(_DECIMAL)
        if match is None:
            raise self.error()
        size = match[1]

        def of(element: Type) -> Type:
            space = "" if element.right.startswith("[") else " "
            return Type(element.left, f"{space}[{size}]{element.right.lstrip()}", "array")

        return self._map(self._type(), of)

    def _member_pointer(self) -> Type:
        self._expect("M")
        owner, member = self._type_text(), self._type_text()
        if member.declares == "function":
            return Type(f"{member.left}({owner.text}::*", f"){member.right}")
        return Type(f"{member.left} {owner.text}::*", member.right)

    def _vector(self) -> Value:
        self.at += 2
        match = self._match(_DECIMAL)
        if match is None:
            raise self.error()
        size = match[1]
        return self._map(self._type(), lambda one: Type(f"{one.text} __vector({size})"))

    def _float_type(self) -> Type:
        self.at += 2
        if self._accept("16b"):
            return Type("std::bfloat16_t")
        match = self._match(_DECIMAL)
        if match is None:
            raise self.error()
        return Type(f"_Float{match[1]}")

    def _parameter_list(self) -> str:
        values: list[Value] = []
        while self.at < len(self._text) and self._peek() not in ("E", "."):
            values.append(self._type())
        text = self._list_of(values)
        return "" if text == "void" else text

    def _list_of(self, values: Sequence[Value]) -> str:
        texts: list[str] = []
        for value in values:
            texts += [member.text for member in value] if isinstance(value, Pack) else [value.text]
            if len(texts) > MAX_LIST:
                raise UnsupportedName("a list with too many types")
        return self._bounded(", ".join(texts))

    def _qualifiers(self) -> str:
        names = [("r", " restrict"), ("V", " volatile"), ("K", " const")]
        return "".join([text for code, text in names if self._accept(code)][::-1])

    def _map(self, value: Value, make: Callable[[Type], Type]) -> Value:
        if not isinstance(value, Pack):
            result = make(value)
            self._bounded(result.text)
            return result
        self._steps += len(value)
        results = Pack(make(member) for member in value)
        self._bounded("".join(member.text for member in results))
        return results


def single(value: Value) -> Type:
    if isinstance(value, Pack):
        raise UnsupportedName("a parameter pack in place of a type")
    return value


def _qualified(base: Type, qualifiers: str) -> Type:
    if base.declares == "function":
        return Type(base.left, base.right + qualifiers, base.declares)
    return Type(base.left + qualifiers, base.right, base.declares)


def _pointer(base: Type, sign: str) -> Type:
    for reference in ("&&", "&"):
        if "&" in sign and base.left.endswith(reference):  # references collapse
            collapsed_sign = "&&" if sign == reference == "&&" else "&"
            return Type(base.left.removesuffix(reference) + collapsed_sign, base.right)
    if base.declares:
        space = " " if base.declares == "array" else ""
        return Type(f"{base.left}{space}({sign}", f"){base.right}")
    return Type(base.left + sign, base.right)
