"""Extracts one kernel from a container into a container with only the dependencies of its code.

Equal bytes mean equal code, so they identify the compiled code. Sections are copied, not
decoded.
"""

import struct
from typing import Final

from vgpu_sim.isa import sections as frame
from vgpu_sim.isa.sections import MODULE_OWNER, Section, Sections
from vgpu_sim.isa.wire import Strings

NAME: Final = ".kernel"
"""The name of an extracted function; no PTX name can be equal to it."""

_MODULE: Final = struct.Struct("<6I")
_VARIABLE: Final = struct.Struct("<4I3Q")
_FUNCTION: Final = struct.Struct("<18I")
_NO_VARIABLE: Final = 0xFFFF_FFFF
_COPIED: Final = (Section.REGISTERS, Section.CODE, Section.LITERALS, Section.RELOCATIONS)
_WORD_BYTES: Final = 16
_LINE_BYTES: Final = 4


class Kernels:
    """The kernels of a container that ``container.decode`` accepts."""

    def __init__(self, data: bytes) -> None:
        self._sections = frame.unpack(data)
        strings = Strings(self._sections[Section.STRINGS, MODULE_OWNER])
        count = _MODULE.unpack(self._sections[Section.MODULE, MODULE_OWNER])[4]
        self._owners: dict[str, int] = {}
        for owner in range(count):
            fields = _FUNCTION.unpack(self._sections[Section.FUNCTION, owner])
            self._owners[strings.get(*fields[:2])] = owner
        self._strings = strings

    def container(self, name: str, *, named: bool = False) -> bytes:
        """Return a container with only the named kernel, without initial data and parameter names.

        Unless ``named`` is set, the kernel is renamed to ``NAME`` and its PTX line numbers are
        set to 0.

        Raises:
            KeyError: there is no such kernel.
        """
        owner = self._owners[name]
        code = self._sections[Section.CODE, owner]
        strings = Strings()
        sections: Sections = dict.fromkeys(_all_sections(), b"")
        sections[Section.VARIABLES, MODULE_OWNER] = self._variables(strings)
        sections[Section.MODULE, MODULE_OWNER] = self._module()
        sections[Section.FUNCTION, 0] = self._function(owner, strings.add(name if named else NAME))
        for kind in _COPIED:
            sections[kind, 0] = self._sections[kind, owner]
        sections[Section.LINES, 0] = bytes(len(code) // _WORD_BYTES * _LINE_BYTES)
        if named:
            sections[Section.LINES, 0] = self._sections[Section.LINES, owner]
        sections[Section.PHYSICAL, 0] = bytes(8)
        sections[Section.STRINGS, MODULE_OWNER] = strings.to_bytes()
        return frame.pack(sections)

    def _module(self) -> bytes:
        *versions, _, variables = _MODULE.unpack(self._sections[Section.MODULE, MODULE_OWNER])
        return _MODULE.pack(*versions, 1, variables)

    def _variables(self, strings: Strings) -> bytes:
        parts = []
        records = self._sections[Section.VARIABLES, MODULE_OWNER]
        for offset, size, space, align, *extent, _ in _VARIABLE.iter_unpack(records):
            title = strings.add(self._strings.get(offset, size))
            parts.append(_VARIABLE.pack(*title, space, align, *extent, 0))
        return b"".join(parts)

    def _function(self, owner: int, title: tuple[int, int]) -> bytes:
        fields = _FUNCTION.unpack(self._sections[Section.FUNCTION, owner])
        return _FUNCTION.pack(*title, *fields[2:-1], _NO_VARIABLE)


def _all_sections() -> list[tuple[Section, int]]:
    of_module = [(kind, MODULE_OWNER) for kind in frame.MODULE_SECTIONS]
    return of_module + [(kind, 0) for kind in frame.FUNCTION_SECTIONS]
