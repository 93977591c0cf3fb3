"""Special registers (PTX ISA, "Special Registers")."""

from vgpu_sim.isa import SpecialRegister

SPECIAL_REGISTERS = {
    **{
        f"%{name}.{axis}": SpecialRegister[f"{name.upper()}_{axis.upper()}"]
        for name in ("tid", "ntid", "ctaid", "nctaid")
        for axis in "xyz"
    },
    "%laneid": SpecialRegister.LANEID,
}
"""Those that the ISA can read, by PTX spelling."""
