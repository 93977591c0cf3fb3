"""Clocks and sensors of a simulated board that programs read, apart from MIG geometry.

Programs read them as a description of the hardware; they do not change what the simulator
computes or how fast.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Silicon:
    """The clocks and the memory bus of a whole GPU, from the vendor's data sheets.

    ``max_clock_khz`` is the largest SM clock. Programs can read it, and sensors show it under load.
    ``Performance.boost_ghz`` is a different clock: the one that the data sheet's rates assume.
    ``async_engines`` is the attribute ASYNC_ENGINE_COUNT of the whole GPU, where it was measured;
    None: the number of copy engines.
    """

    max_clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    async_engines: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Power in W and clocks in MHz that nvidia-smi shows for an idle board; no data sheet has them.

    ``idle_memory_clock_mhz`` is None for a board that stays in performance state P0 when idle and
    does not lower its memory clock. Boards with HBM are of this kind.
    """

    idle_w: int
    idle_clock_mhz: int
    idle_memory_clock_mhz: int | None = None
