"""Removes the address clamp from the code generator (see ``no_address_clamp`` in this folder's
parent).
"""

from vgpu_sim.exec.jit.values.launch import EntryArguments


def _clamp(self: EntryArguments, address: str, shift: str = "0") -> str:
    base, _ = self._bounds()
    distance = self._text.let(f"sub i64 {address}, {base}")
    return self.offset_pointer(self._start(shift), distance)


def _clamp_lanes(self: EntryArguments, addresses: str, shift: str = "0") -> str:
    text = self._text
    base, _ = self._bounds()
    type_ = text.type_of("i64", vector=True)
    distance = text.let(f"sub {type_} {addresses}, {text.splat('i64', base)}")
    return text.let(f"getelementptr i8, ptr {self._start(shift)}, {type_} {distance}")


EntryArguments.clamp = _clamp  # type: ignore[method-assign]
EntryArguments.clamp_lanes = _clamp_lanes  # type: ignore[method-assign]
