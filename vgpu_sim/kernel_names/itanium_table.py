"""The codes of the Itanium C++ ABI for types, operators and the standard library's names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BUILTINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "v": "void",
        "w": "wchar_t",
        "b": "bool",
        "c": "char",
        "a": "signed char",
        "h": "unsigned char",
        "s": "short",
        "t": "unsigned short",
        "i": "int",
        "j": "unsigned int",
        "l": "long",
        "m": "unsigned long",
        "x": "long long",
        "y": "unsigned long long",
        "n": "__int128",
        "o": "unsigned __int128",
        "f": "float",
        "d": "double",
        "e": "long double",
        "g": "__float128",
        "z": "...",
        "Da": "auto",
        "Dc": "decltype(auto)",
        "Dn": "decltype(nullptr)",
        "Dh": "half",
        "Di": "char32_t",
        "Ds": "char16_t",
        "Du": "char8_t",
    }
)

# Suffixes of literals; the other integer types are printed as a cast.
SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
)

STANDARD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "a": "std::allocator",
        "b": "std::basic_string",
        "s": "std::string",
        "i": "std::istream",
        "o": "std::ostream",
        "d": "std::iostream",
    }
)

OPERATORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nw": " new",
        "na": " new[]",
        "dl": " delete",
        "da": " delete[]",
        "co": "~",
        "ps": "+",
        "ng": "-",
        "ad": "&",
        "de": "*",
        "pl": "+",
        "mi": "-",
        "ml": "*",
        "dv": "/",
        "rm": "%",
        "an": "&",
        "or": "|",
        "eo": "^",
        "aS": "=",
        "pL": "+=",
        "mI": "-=",
        "mL": "*=",
        "dV": "/=",
        "rM": "%=",
        "aN": "&=",
        "oR": "|=",
        "eO": "^=",
        "ls": "<<",
        "rs": ">>",
        "lS": "<<=",
        "rS": ">>=",
        "eq": "==",
        "ne": "!=",
        "lt": "<",
        "gt": ">",
        "le": "<=",
        "ge": ">=",
        "ss": "<=>",
        "nt": "!",
        "aa": "&&",
        "oo": "||",
        "pp": "++",
        "mm": "--",
        "cm": ",",
        "pm": "->*",
        "pt": "->",
        "cl": "()",
        "ix": "[]",
    }
)
