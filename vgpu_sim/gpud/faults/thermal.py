"""Sensor readings of a GPU that is too hot: its clocks are reduced until it has cooled."""

from dataclasses import replace

from vgpu_sim.hal.management.admin import Telemetry

SLOWED: float = 0.5  # hardware slowdown halves the clocks, or more ("HW Thermal Slowdown", NVML)


def apply_slowdown(telemetry: Telemetry) -> Telemetry:
    """Return a GPU's readings, changed to those at the slowdown temperature: the temperature is at
    least that high, and the SM clock is reduced. Kernels are not actually slowed.
    """
    return replace(
        telemetry,
        temperature_c=max(telemetry.temperature_c, telemetry.slowdown_temperature_c),
        sm_clock_mhz=min(telemetry.sm_clock_mhz, int(telemetry.max_sm_clock_mhz * SLOWED)),
    )
