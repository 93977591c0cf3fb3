"""Counters become shares of a period, and these determine a board's sensor readings."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from mig.geometry import BOARDS, board
from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance
from vgpu_sim.gpud.telemetry import counting, figures, sensors
from vgpu_sim.gpud.telemetry.energy import Drawn, EnergyFile
from vgpu_sim.gpud.telemetry.meter import IDLE, PERIOD_NS, Meter, Reading
from vgpu_sim.gpud.telemetry.sampler import Observed, Sampler
from vgpu_sim.hal.management.admin import Activity, Counters

S = PERIOD_NS
H100 = board("h100-80gb")
GPU = Gpu(GpuUuid("GPU-1"), 0, "h100-80gb")
SLICE = MigInstance(InstanceUuid("MIG-1"), GPU, H100.profile("1g.10gb"), 0, 0)
NOTHING = Counters()


def busy(ns: int, **more: int) -> Counters:
    return Counters(contexts=1, busy_ns=ns, **more)


def test_a_sum_does_not_leave_63_bits() -> None:
    most = Counters(launches=counting.MAX_COUNT)
    assert counting.total(most, most, Counters(blocks=3)) == replace(most, blocks=3)


@pytest.mark.parametrize("name", [field.name for field in fields(Counters)])
def test_each_counter_is_kept_up_to_63_bits_and_no_further(name: str) -> None:
    most = (1 << 63) - 1
    for count, kept in ((most - 1, most - 1), (most, most), (most + 1, most)):
        assert getattr(counting.total(Counters(**{name: count})), name) == kept
        # As long as the context has lived and been busy, so that no other time is limited.
        lived = Counters(busy_ns=count, sm_active_ns=count)
        found = counting.bound_report(replace(lived, **{name: count}), NOTHING, most + 1)
        assert getattr(found, name) == kept
    one = Counters(**{name: most})
    assert getattr(counting.total(one, Counters(**{name: 1})), name) == most


@pytest.mark.parametrize(
    ("reported", "accepted"),
    [
        (busy(2 * S), busy(S)),  # busier than it has lived
        (busy(S // 2, sm_active_ns=S), busy(S // 2, sm_active_ns=S // 2)),
        (
            busy(S, sm_active_ns=S // 4, sm_occupancy_ns=S),
            busy(S, sm_active_ns=S // 4, sm_occupancy_ns=S // 4),
        ),
        (busy(0, memory_ns=2 * S), busy(0, memory_ns=S)),  # copies run without kernels
        (busy(0, launches=1 << 64), busy(0, launches=counting.MAX_COUNT)),
    ],
)
def test_impossible_reports_of_a_tenant_are_not_accepted(
    reported: Counters, accepted: Counters
) -> None:
    assert counting.bound_report(reported, NOTHING, S) == accepted


def test_no_accepted_counter_decreases() -> None:
    before = Counters(*range(100, 100 + len(fields(Counters))))
    assert counting.bound_report(NOTHING, before, S) == before


def test_a_context_that_computes_half_the_time_is_half_busy_whenever_it_is_looked_at() -> None:
    """Its reports and gpud's samples are not in step: some periods see two reports, some none."""
    meter, shares = Meter(), []
    reports = [Reading(busy(n * S // 2), S // 3 + n * S * 21 // 20) for n in range(1, 41)]
    for now_ns in range(2 * S, 40 * S, S):
        seen = [one for one in reports if one.at_ns <= now_ns]
        if seen:
            use = meter.sample({1: seen[-1]}, NOTHING, now_ns)
            shares.append(use.activity.engine)
    assert all(0.45 <= share <= 0.51 for share in shares[1:])


def test_a_context_that_stopped_reporting_is_idle() -> None:
    meter = Meter()
    report = Reading(busy(S), 10 * S)
    assert meter.sample({1: report}, NOTHING, 10 * S).activity.engine == pytest.approx(1, rel=0.1)
    meter.sample({1: report}, NOTHING, 11 * S)
    assert meter.sample({1: report}, NOTHING, 12 * S).activity == Activity()


def test_a_context_that_was_at_rest_is_busy_at_once() -> None:
    meter = Meter()
    meter.sample({1: Reading(busy(S), 10 * S)}, NOTHING, 10 * S)
    use = meter.sample({1: Reading(busy(2 * S), 100 * S)}, NOTHING, 100 * S)
    assert use.activity.engine == pytest.approx(1, rel=0.1)


def test_a_context_that_came_and_went_between_two_samples_counts_once() -> None:
    meter = Meter()
    meter.sample({1: Reading(busy(S), 10 * S)}, NOTHING, 10 * S)
    ended = counting.total(busy(S + S // 5), busy(S // 10))  # one observed, one never observed
    assert meter.sample({}, ended, 11 * S).activity.engine == pytest.approx(0.3)
    assert meter.sample({}, ended, 12 * S).activity.engine == 0


def test_several_contexts_together_are_never_more_than_all() -> None:
    meter = Meter()
    live = {key: Reading(busy(S, sm_active_ns=S), 10 * S) for key in range(3)}
    activity = meter.sample(live, NOTHING, 10 * S).activity
    assert (activity.engine, activity.sm_active) == (1.0, 1.0)


def test_bytes_a_second_go_in_and_out() -> None:
    meter = Meter()
    meter.sample({1: Reading(NOTHING, 10 * S)}, NOTHING, 10 * S)
    moved = Counters(host_to_device_bytes=500, device_to_host_bytes=70)
    use = meter.sample({1: Reading(moved, 11 * S)}, NOTHING, 11 * S)
    assert (use.in_bytes_per_s, use.out_bytes_per_s) == (500, 70)


@pytest.mark.parametrize("key", sorted(BOARDS))
def test_every_board_has_sensors_that_stay_within_its_limits(key: str) -> None:
    one = board(key)
    state = sensors.at_rest(one)
    rest = sensors.read(one, state, Activity(), ())
    assert 0 < rest.power_draw_mw < rest.power_limit_mw / 3
    assert (rest.gpu_utilization_percent, rest.memory_utilization_percent) == (0, 0)
    assert rest.sm_clock_mhz < rest.max_sm_clock_mhz
    all_of_it = Activity(*[1.0] * len(fields(Activity)))
    for _ in range(300):
        state = sensors.advance(one, state, all_of_it, 1.0)
    hot = sensors.read(one, state, all_of_it, ())
    assert hot.power_draw_mw == hot.power_limit_mw
    assert hot.temperature_c == figures.FULL_POWER_C < hot.slowdown_temperature_c
    assert hot.energy_mj == 300 * hot.power_limit_mw
    assert (hot.gpu_utilization_percent, hot.performance_state) == (100, 0)
    assert hot.sm_clock_mhz == hot.max_sm_clock_mhz


def test_what_is_busy_at_all_is_not_shown_as_idle() -> None:
    shown = sensors.read(H100, sensors.at_rest(H100), Activity(engine=0.001), ())
    assert shown.gpu_utilization_percent == 1


def test_a_slice_is_busy_for_its_share_of_the_gpu() -> None:
    profile = SLICE.profile
    mean = sensors.activity_of(
        H100, [(profile.size, profile.sm_count, Activity(engine=1.0, memory=1.0))]
    )
    assert mean.engine == pytest.approx(profile.sm_count / H100.sm_count)
    assert mean.memory == pytest.approx(profile.size / H100.placement_units)


def test_the_sampler_remembers_energy_and_forgets_what_is_gone() -> None:
    sampler = Sampler()
    assert sampler.telemetry(GPU, 0).energy_mj == 0  # before the first sample
    sampler.sample([GPU], [], 5 * S)
    live = {1: Reading(busy(S, sm_active_ns=S), 6 * S)}
    sampler.sample([GPU], [Observed(SLICE, live, NOTHING)], 6 * S)
    at_work = sampler.telemetry(GPU, 6 * S)
    assert sampler.activity(SLICE.uuid).engine == pytest.approx(1, rel=0.1)
    assert (
        at_work.energy_mj
        == at_work.power_draw_mw
        > sampler.telemetry(replace(GPU, index=1), 6 * S).energy_mj
    )
    sampler.sample([], [], 7 * S)
    assert sampler.activity(SLICE.uuid) == Activity()
    assert sampler.telemetry(GPU, 7 * S).energy_mj == 0


def test_energy_grows_between_samples_and_never_falls() -> None:
    """Programs read it at intervals of milliseconds; work that ends leaves no step back."""
    sampler = Sampler()
    live = {1: Reading(busy(S, sm_active_ns=S), 6 * S)}
    for now, observed in ((5 * S, []), (6 * S, [Observed(SLICE, live, NOTHING)])):
        sampler.sample([GPU], observed, now)
    read = [sampler.telemetry(GPU, 6 * S + part * S // 10).energy_mj for part in range(10)]
    sampler.sample([GPU], [], 7 * S)
    read.append(sampler.telemetry(GPU, 7 * S).energy_mj)
    assert read == sorted(read)
    assert read[1] > read[0]


def test_what_was_done_under_an_earlier_gpud_is_counted_and_is_no_use_now() -> None:
    """An adopted context's first report covers its whole life, so it does not affect the rate."""
    whole = Counters(contexts=1, busy_ns=100 * PERIOD_NS, host_to_device_bytes=1 << 40)
    meter = Meter(ended_before=whole)
    silent = Reading(Counters(contexts=1), 0, adopted=True)
    assert meter.sample({"a": silent}, whole, PERIOD_NS) == IDLE
    first = Reading(whole, PERIOD_NS + 1, adopted=True)
    assert meter.sample({"a": first}, whole, 2 * PERIOD_NS) == IDLE
    half = replace(whole, busy_ns=whole.busy_ns + PERIOD_NS // 2)
    then = Reading(half, 2 * PERIOD_NS + 1, adopted=True)
    use = meter.sample({"a": then}, whole, 3 * PERIOD_NS)
    assert (use.activity.engine, use.in_bytes_per_s) == (0.5, 0)


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """The file that names the boot of the node."""
    path = tmp_path / "boot_id"
    path.write_text("one\n")
    return path


def test_energy_goes_on_with_the_next_gpud(tmp_path: Path, boot: Path) -> None:
    """It never decreases, and the seconds without a gpud count as idle."""
    first = Sampler(EnergyFile(tmp_path, boot))
    first.sample([GPU], [], 5 * S)
    live = {1: Reading(busy(S, sm_active_ns=S), 6 * S)}
    first.sample([GPU], [Observed(SLICE, live, NOTHING)], 6 * S)
    before = first.telemetry(GPU, 6 * S)
    following = Sampler(EnergyFile(tmp_path, boot))
    following.sample([GPU], [], 6 * S)
    assert following.telemetry(GPU, 6 * S).energy_mj == before.energy_mj > 0
    third = Sampler(EnergyFile(tmp_path, boot))
    third.sample([GPU], [], 16 * S)
    at_rest = third.telemetry(GPU, 16 * S)
    assert at_rest.energy_mj == pytest.approx(before.energy_mj + 10 * at_rest.power_draw_mw, abs=2)
    third.sample([GPU, replace(GPU, uuid=GpuUuid("GPU-other"), index=1)], [], 16 * S)
    assert third.telemetry(GPU, 16 * S).energy_mj == at_rest.energy_mj


def test_energy_begins_anew_with_the_node_and_with_another_gpu(tmp_path: Path, boot: Path) -> None:
    first = Sampler(EnergyFile(tmp_path, boot))
    for now in (5 * S, 6 * S):
        first.sample([GPU], [], now)
    other = replace(GPU, uuid=GpuUuid("GPU-other"))
    following = Sampler(EnergyFile(tmp_path, boot))
    following.sample([other], [], 6 * S)
    assert following.telemetry(other, 6 * S).energy_mj == 0
    first.sample([GPU], [], 7 * S)
    boot.write_text("two\n")
    after = Sampler(EnergyFile(tmp_path, boot))
    after.sample([GPU], [], S)
    assert after.telemetry(GPU, S).energy_mj == 0


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", '{"boot": "one", "at_ns": 1, "mj": []}']
    + [f'{{"boot": "one", "at_ns": 1, "mj": {{"GPU": {mj}}}}}' for mj in ("-1", "NaN", '"x"')],
)
def test_a_damaged_file_of_energies_counts_as_none(tmp_path: Path, boot: Path, text: str) -> None:
    (tmp_path / "energy.json").write_text(text)
    kept = EnergyFile(tmp_path, boot)
    assert kept.load() == Drawn()
    kept.save(Drawn(7, {GPU.uuid: 3.5}))
    assert kept.load() == Drawn(7, {GPU.uuid: 3.5})


def test_energies_that_cannot_be_written_do_not_stop_the_sampler(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Sampler(EnergyFile(tmp_path / "gone"))
    for now in (5 * S, 6 * S, 7 * S):
        sampler.sample([GPU], [], now)
    assert sampler.telemetry(GPU, 7 * S).energy_mj > 0
    assert caplog.text.count("energy_unwritten") == 1
