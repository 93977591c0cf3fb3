"""Models a GPU's sensors from its activity, its board, and time.

Power is the board's idle power plus a part of the difference between the power limit and idle
power. Half of the difference is added in proportion to the multiprocessors that have work, three
tenths in proportion to their occupancy, and two tenths in proportion to memory activity.
Temperature follows power with a delay. Both models are only plausible, not measured.
"""

import math
from collections.abc import Iterable
from dataclasses import fields

from mig.geometry import Board
from vgpu_sim.gpud.devices.silicon import BOARDS
from vgpu_sim.gpud.telemetry import figures
from vgpu_sim.gpud.telemetry.meter import Use
from vgpu_sim.hal.management.admin import Activity, Telemetry
from vgpu_sim.records import dataclass

_OF_SM_ACTIVE, _OF_OCCUPANCY, _OF_MEMORY = 0.5, 0.3, 0.2
_IDLE_STATE = 8  # a board whose memory clock falls when idle


@dataclass(frozen=True, slots=True)
class State:
    """The state of a GPU's sensors: energy in mJ and temperature in degrees Celsius."""

    energy_mj: float
    temperature_c: float


def at_rest(board: Board, energy_mj: float = 0.0) -> State:
    """Return the state of a GPU that has long been idle, and has drawn ``energy_mj``."""
    return State(energy_mj, _steady_c(board, _power_w(board, Activity())))


def activity_of(board: Board, uses: Iterable[tuple[int, int, Activity]]) -> Activity:
    """Return a GPU's activity: the mean of its instances' activities, weighted by their parts of
    the board.

    Each use is (placement units, multiprocessors, activity).
    """
    sums = dict.fromkeys((field.name for field in fields(Activity)), 0.0)
    for units, multiprocessors, activity in uses:
        for name in sums:
            if name == "memory":
                weight = units / board.placement_units
            else:
                weight = multiprocessors / board.sm_count
            sums[name] = min(1.0, sums[name] + weight * getattr(activity, name))
    return Activity(**sums)


def advance(board: Board, state: State, activity: Activity, seconds: float) -> State:
    """Return the state of the sensors after ``seconds`` of this activity."""
    power_w = _power_w(board, activity)
    steady_c = _steady_c(board, power_w)
    decay = math.exp(-max(seconds, 0.0) / figures.HEATING_S)
    return State(
        state.energy_mj + power_w * max(seconds, 0.0) * 1000,
        steady_c + (state.temperature_c - steady_c) * decay,
    )


def read(board: Board, state: State, activity: Activity, uses: Iterable[Use]) -> Telemetry:
    """Return the readings of a GPU's sensors. Raises KeyError if no sensor figures are known for
    the board.
    """
    sensors, silicon = figures.SENSORS[board.key], BOARDS[board.key]
    at_work = any(getattr(activity, field.name) > 0 for field in fields(Activity))
    used = tuple(uses)
    max_clock_mhz, max_memory_mhz = silicon.max_clock_khz // 1000, silicon.memory_clock_khz // 1000
    slow_memory_mhz = None if at_work else sensors.idle_memory_clock_mhz
    warmth = (state.temperature_c - figures.AMBIENT_C) / (figures.FULL_POWER_C - figures.AMBIENT_C)
    return Telemetry(
        activity=activity,
        gpu_utilization_percent=_percent(activity.engine),
        memory_utilization_percent=_percent(activity.memory),
        sm_clock_mhz=max_clock_mhz if at_work else sensors.idle_clock_mhz,
        memory_clock_mhz=max_memory_mhz if slow_memory_mhz is None else slow_memory_mhz,
        max_sm_clock_mhz=max_clock_mhz,
        max_memory_clock_mhz=max_memory_mhz,
        power_draw_mw=round(_power_w(board, activity) * 1000),
        power_limit_mw=figures.limit_w(board.key) * 1000,
        energy_mj=round(state.energy_mj),
        temperature_c=round(state.temperature_c),
        memory_temperature_c=round(state.temperature_c + figures.MEMORY_HOTTER_C * warmth),
        slowdown_temperature_c=figures.SLOWDOWN_C,
        shutdown_temperature_c=figures.SHUTDOWN_C,
        fans_percent=(),
        performance_state=0 if slow_memory_mhz is None else _IDLE_STATE,
        pcie_tx_bytes_per_s=sum(use.out_bytes_per_s for use in used),
        pcie_rx_bytes_per_s=sum(use.in_bytes_per_s for use in used),
    )


def _power_w(board: Board, activity: Activity) -> float:
    sensors = figures.SENSORS[board.key]
    load = (
        _OF_SM_ACTIVE * activity.sm_active
        + _OF_OCCUPANCY * activity.sm_occupancy
        + _OF_MEMORY * activity.memory
    )
    return sensors.idle_w + (figures.limit_w(board.key) - sensors.idle_w) * load


def _steady_c(board: Board, power_w: float) -> float:
    share = power_w / figures.limit_w(board.key)
    return figures.AMBIENT_C + (figures.FULL_POWER_C - figures.AMBIENT_C) * share


def _percent(share: float) -> int:
    """Convert a share to per cent, rounded up: any activity is shown as at least 1."""
    return min(100, math.ceil(share * 100 - 1e-9))
