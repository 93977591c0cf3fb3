"""What a GPU's sensors say while it is too hot: clocks fall until it is not."""

from dataclasses import replace

from vgpu_sim.hal.management.admin import Telemetry

SLOWED: float = 0.5  # hardware slowdown halves the clocks, or more ("HW Thermal Slowdown", NVML)


def slowed(telemetry: Telemetry) -> Telemetry:
    """Return the sensors of a GPU at its slowdown temperature. Kernels run as fast as before."""
    return replace(
        telemetry,
        temperature_c=max(telemetry.temperature_c, telemetry.slowdown_temperature_c),
        sm_clock_mhz=min(telemetry.sm_clock_mhz, int(telemetry.max_sm_clock_mhz * SLOWED)),
    )
