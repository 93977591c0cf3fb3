"""What programs and sensors of a simulated board read, and MIG geometry lacks.

They describe the hardware to programs that ask; nothing here changes what the simulator computes
or how fast.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Silicon:
    """A board's clocks and memory bus, of the whole GPU, from the vendor's data sheets.

    ``max_clock_khz`` is the largest clock of an SM, which programs read and sensors show under
    load. ``Performance.boost_ghz`` is another: the clock that rates of the data sheet hold at.
    """

    max_clock_khz: int
    memory_clock_khz: int
    bus_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """A board at rest, as nvidia-smi shows it: W, MHz. No data sheet has them.

    ``idle_memory_clock_mhz`` is None where the memory keeps its clock, and the board its
    performance state P0, as those with HBM do.
    """

    idle_w: int
    idle_clock_mhz: int
    idle_memory_clock_mhz: int | None = None
