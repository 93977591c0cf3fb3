"""Counts of launches against the whole grid in the interpreter, and times against bounds."""

import struct
import tracemalloc
from dataclasses import dataclass, field
from unittest.mock import Mock, patch

import numpy as np
import pytest

from support.kernels.exact_counts import compare
from support.kernels.generated_kernels import generate
from vgpu_sim import compiler
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.isa import container
from vgpu_sim.perf.kernels import chip_of, scoreboard
from vgpu_sim.worker.modelling import costs, scaling
from vgpu_sim.worker.modelling.costs import Cost, Costs
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.observing.counting import SLOTS, instrument
from vgpu_sim.worker.observing.tallies import Tally

H100 = chip_of("h100-80gb")
BASE = 0x2000_0000_0000
_SEGMENT = 1 << 16
_HEAD = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 po, .param .u32 n)
{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .f32 %f<9>;
.reg .b64 %rd<20>;
ld.param.u64 %rd0, [pa];
ld.param.u64 %rd1, [po];
ld.param.u32 %r9, [n];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r3, %r1, %r2, %r0;
mov.f32 %f0, 0f3F800000;
mov.u32 %r4, 0;
mov.u32 %r8, 0;
"""
_TAIL = """
mul.wide.u32 %rd2, %r3, 4;
add.u64 %rd2, %rd1, %rd2;
st.global.f32 [%rd2], %f0;
st.global.u32 [%rd2], %r8;
ret;
}
"""
_LOOP = "L:\nmad.lo.u32 %r8, %r8, %r8, %r8;\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, {};\n@%p0 bra L;\n"


@dataclass
class Device:
    """One kernel with separate memory, whose launches run in the interpreter with counters."""

    body: str
    words: int = 1 << 14  # size of each of the two buffers
    memory: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.module = compiler.compile_ptx(_HEAD + self.body + _TAIL, capability=(8, 0))
        self.memory = bytearray(_SEGMENT + 8 * self.words)
        self.source = BASE + _SEGMENT
        ends = [(BASE, self.source), (self.source, self.source + 4 * self.words)]
        ends.append((ends[-1][1], BASE + len(self.memory)))

        def place_of(address: int) -> int | None:
            found = [place for place, (begin, end) in enumerate(ends) if begin <= address < end]
            return found[0] if found else None

        self.running, _ = instrument(self.module, weigh)
        self.costs = Costs(H100, lambda: BufferMemory(BASE, self.memory), lambda: ends, place_of)
        self.costs.record_load({"k": 1}, container.encode(self.module), BASE)

    def write(self, values: np.ndarray) -> None:
        """Copy words to the first buffer."""
        data = values.astype("<u4").tobytes()
        self.memory[_SEGMENT : _SEGMENT + len(data)] = data

    def launch(self, blocks: int, threads: int, number: int) -> Cost:
        """Run a launch and return its cost."""
        parameters = struct.pack("<QQI", self.source, self.source + 4 * self.words, number)
        launch = Launch("k", (blocks, 1, 1), (threads, 1, 1), parameters, 0)
        begun = self.costs.begin(1, launch, alone=True)
        memory = BufferMemory(BASE, self.memory)
        function = self.running.function("k")
        interp.run(self.running, function, launch.grid, launch.block, parameters, memory, BASE)
        return self.costs.end(begun)


@pytest.mark.parametrize("seed", range(20))
def test_counts_of_generated_kernels_are_those_of_the_whole_grid(seed: int) -> None:
    compared = compare(H100, generate(seed))
    assert not compared.wrong, compared.kernel.name
    if compared.found.is_bound:
        assert compared.found.us <= 1.02 * compared.exact.us, compared.kernel.name
    else:
        assert compared.error < 0.1, (compared.kernel.name, compared.off(0.05))


@pytest.mark.parametrize("seed", [0, 4, 5])
def test_a_sample_that_ends_early_is_extrapolated_by_counts(seed: int) -> None:
    compared = compare(H100, generate(seed, long=True), most_words=1000)
    assert not compared.wrong
    assert compared.found.is_bound or compared.error < 0.1, (compared.error, compared.off(0.05))


@pytest.mark.parametrize(
    ("index", "hottest", "sectors", "steps"),
    [
        ("mov.u32 %r10, 0;", 3 * 64, 1, 1),  # one address for all: a warp's lanes are added up
        ("mov.u32 %r10, %r1;", 3 * 64, 1, 1),  # one address per block
        ("mov.u32 %r10, %r0;", 3 * 64 * 4, 4, 4),  # one address per lane, in all blocks
        ("shr.u32 %r10, %r0, 5;", 3 * 64 * 32, 1, 32),  # one address per warp, in all blocks
        ("shl.b32 %r10, %r3, 3;", 16, 32, 32),  # a sector per thread: 16 of them are 512 bytes
    ],
)
def test_the_hottest_memory_is_that_of_all_blocks_or_a_block_s_own(
    index: str, hottest: int, sectors: int, steps: int
) -> None:
    """64 blocks of three warps, of which some are sampled; each warp then makes two stores. In the
    first four cases, all blocks update words of the same 512 bytes.
    """
    body = f"{index}\nmul.wide.u32 %rd5, %r10, 4;\nadd.u64 %rd5, %rd0, %rd5;\n"
    cost = Device(body + "red.global.add.u32 [%rd5], 1;\n", 1 << 16).launch(64, 96, 0)
    counts = cost.counts
    assert counts is not None
    assert counts.hot_updates == pytest.approx(hottest)
    assert counts.atomic_requests == pytest.approx(3)
    assert counts.atomic_sectors == pytest.approx(3 * sectors)
    assert counts.atomic_steps == pytest.approx(3 * steps)


def test_a_long_loop_takes_as_much_longer_as_it_is() -> None:
    device = Device(_LOOP.format("%r9"))
    short, long = (device.launch(2, 32, rounds) for rounds in (8_000, 16_000))
    for cost, rounds in ((short, 8_000), (long, 16_000)):
        assert cost.counts is not None
        assert not cost.counts.bound
        # The products, two for addresses, and half of the additions.
        assert cost.counts.pipe_imad >= rounds + 2
        assert cost.us > H100.us(4 * rounds)  # the chain of dependent products
    launch = H100.launch_us
    assert long.us - launch == pytest.approx(2 * (short.us - launch), rel=0.01)


def test_every_set_of_arguments_has_a_time_of_its_own() -> None:
    device = Device(_LOOP.format("%r9"))
    rounds = [10 * 2**step for step in range(6)] + [9 * step for step in range(1, 20)]
    times = {number: device.launch(4, 32, number).us for number in rounds}
    for number, us in times.items():
        assert us - H100.launch_us > H100.us(4 * number)
    ordered = [times[number] for number in sorted(rounds)]
    assert ordered == sorted(ordered)
    assert [device.launch(4, 32, number).us for number in rounds] == list(times.values())


@pytest.mark.parametrize("rounds", [(10, 900), (900, 10), (10, 10)])
def test_equal_arguments_with_other_data_are_another_launch(rounds: tuple[int, int]) -> None:
    device = Device("ld.global.u32 %r5, [%rd0];\n" + _LOOP.format("%r5"))
    times = []
    for number in rounds:
        device.write(np.array([number]))
        times.append(device.launch(4, 32, 0).us)
    device = Device("ld.global.u32 %r5, [%rd0];\n" + _LOOP.format("%r5"))
    device.write(np.array([rounds[1]]))
    assert times[1] == device.launch(4, 32, 0).us


def test_gathers_with_other_indices_are_another_launch() -> None:
    device = Device(
        "and.b32 %r5, %r3, 4095;\nmul.wide.u32 %rd3, %r5, 4;\nadd.u64 %rd4, %rd0, %rd3;\n"
        "ld.global.u32 %r5, [%rd4];\nmul.wide.u32 %rd3, %r5, 4;\nadd.u64 %rd4, %rd0, %rd3;\n"
        "ld.global.f32 %f0, [%rd4];\n"
    )
    sectors = []
    draws = np.random.default_rng(5)
    for indices in (np.arange(4096), draws.integers(0, device.words, 4096), np.arange(4096)):
        device.write(indices)
        counts = device.launch(32, 128, 0).counts
        assert counts is not None
        sectors.append(counts.load_sectors)
    assert sectors[0] == sectors[2] < sectors[1] / 2


@pytest.mark.parametrize("which", [0, 77, 299])
def test_one_slow_block_counts(which: int) -> None:
    device = Device(
        f"setp.ne.u32 %p1, %r1, {which};\n@%p1 bra E;\n{_LOOP.format('%r9')}E:\n", words=1 << 17
    )
    cost = device.launch(300, 32, 1000)
    assert cost.us > H100.us(4 * 1000)
    assert cost.counts is not None
    assert not cost.counts.bound
    assert cost.counts.heaviest_block > 100
    assert device.launch(300, 32, 1).us < cost.us / 2


@pytest.mark.parametrize("distance", [1, 3, 33, 100])
def test_data_that_blocks_share_is_read_once(distance: int) -> None:
    device = Device(
        f"""L:
mad.lo.u32 %r5, %r4, {distance * 64}, %r3;
and.b32 %r5, %r5, 16383;
mul.wide.u32 %rd3, %r5, 4;
add.u64 %rd4, %rd0, %rd3;
ld.global.f32 %f1, [%rd4];
add.f32 %f0, %f0, %f1;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p0, %r4, 64;
@%p0 bra L;
"""
    )
    counts = device.launch(128, 64, 0).counts
    assert counts is not None
    threads = np.arange(128 * 64)[:, None] + np.arange(64) * distance * 64
    twice = device.body.replace("L:\n", "L:\n" + device.body.split("L:\n")[1].split("setp")[0])
    again = Device(twice).launch(128, 64, 0).counts  # unrolled: two instructions take turns
    assert again is not None
    assert again.unique_load_bytes == pytest.approx(counts.unique_load_bytes, rel=0.1)
    assert counts.unique_load_bytes == pytest.approx(4 * len(np.unique(threads % 16384)), rel=0.05)


@pytest.mark.parametrize(
    ("operator", "reaches"),
    [("", False), (".ca", False), (".cg", True), (".cv", True), (".cs", False), (".lu", False)],
)
def test_what_a_cache_operator_lets_the_first_level_keep(operator: str, reaches: bool) -> None:
    device = Device(
        f"mul.wide.u32 %rd3, %r3, 4;\nadd.u64 %rd4, %rd0, %rd3;\nL:\n"
        f"ld.global{operator}.f32 %f1, [%rd4];\nadd.f32 %f0, %f0, %f1;\nadd.u32 %r4, %r4, 1;\n"
        "setp.lt.u32 %p0, %r4, 16;\n@%p0 bra L;\n"
    )
    counts = device.launch(16, 64, 0).counts
    assert counts is not None
    assert counts.load_sectors == 16 * 8
    assert counts.l1_missed_sectors == pytest.approx(16 * 8 if reaches else 8)


@pytest.mark.parametrize("operator", [".cs", ".lu"])
def test_streamed_lines_leave_a_full_cache_first(operator: str) -> None:
    def miss_ratio(kind: str) -> float:
        # 256 threads read 256 KiB in steps of 1 KiB, twice: more than a block's share of the cache.
        device = Device(
            f"""L:
and.b32 %r5, %r4, 255;
mad.lo.u32 %r5, %r5, 256, %r0;
mul.wide.u32 %rd3, %r5, 4;
add.u64 %rd4, %rd0, %rd3;
ld.global.f32 %f1, [%rd0];
ld.global{kind}.f32 %f2, [%rd4];
add.f32 %f0, %f1, %f2;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p0, %r4, 512;
@%p0 bra L;
""",
            words=1 << 16,
        )
        counts = device.launch(1, 256, 0).counts
        assert counts is not None
        return counts.l1_missed_sectors

    assert miss_ratio(operator) == pytest.approx(512 * 32, rel=0.01)


def test_no_launch_touches_more_than_there_is() -> None:
    device = Device(
        "mad.lo.u32 %r5, %r3, 1103515245, 12345;\nshr.u32 %r5, %r5, 8;\nand.b32 %r5, %r5, 16383;\n"
        "mul.wide.u32 %rd3, %r5, 4;\nadd.u64 %rd4, %rd0, %rd3;\nld.global.f32 %f0, [%rd4];\n",
        words=1 << 17,
    )
    counts = device.launch(1024, 128, 0).counts
    assert counts is not None
    assert counts.unique_load_bytes <= 4 << 17


def test_a_loop_that_another_thread_ends_is_a_bound() -> None:
    device = Device(
        "mov.u32 %r5, 0;\nW:\nld.volatile.global.u32 %r6, [%rd0];\nadd.u32 %r5, %r5, 1;\n"
        "setp.eq.u32 %p1, %r6, 0;\n@%p1 bra W;\n"
    )
    device.write(np.array([1]))
    counts = device.launch(2, 32, 0).counts
    assert counts is not None
    assert counts.bound


def test_a_kernel_without_branches_is_loaded_as_it_is() -> None:
    device = Device("add.f32 %f0, %f0, %f0;\n")
    assert device.running is device.module
    counts = device.launch(3, 40, 0).counts
    assert counts is not None
    assert not counts.bound
    assert counts.heaviest_block == 1


@pytest.mark.parametrize(("parts", "bound"), [(63, False), (64, False), (65, True)])
def test_a_kernel_with_too_many_parts_is_a_bound(parts: int, bound: bool) -> None:
    device = Device(
        "".join(
            f"setp.eq.u32 %p1, %r9, {part};\n@%p1 bra E{part};\nadd.u32 %r8, %r8, %r0;\nE{part}:\n"
            for part in range(1, parts + 1)
        )
    )
    assert (device.running is device.module) == bound
    counts = device.launch(2, 32, 0).counts
    assert counts is not None
    assert bool(counts.bound) == bound


def test_a_launch_beside_another_of_its_kernel_is_a_bound() -> None:
    device = Device(_LOOP.format("%r9"))
    parameters = struct.pack("<QQI", device.source, device.source + 4 * device.words, 5)
    launch = Launch("k", (2, 1, 1), (32, 1, 1), parameters, 0)
    for alone in (True, False):
        begun = device.costs.begin(1, launch, alone=alone)
        interp.run(
            device.running,
            device.running.function("k"),
            launch.grid,
            launch.block,
            parameters,
            BufferMemory(BASE, device.memory),
            BASE,
        )
        counts = device.costs.end(begun).counts
        assert counts is not None
        assert bool(counts.bound) != alone


def test_few_blocks_of_a_large_grid_are_sampled_again() -> None:
    shape = Mock(block_count=1 << 31)
    tally = Tally((1,), 1, np.zeros(SLOTS, dtype=np.uint64))
    with patch.object(scaling, "_scales", return_value=Mock(unseen=True)):
        found = scaling.later_blocks(Mock(launch=shape), (Mock(), tally))
    assert 16 <= len(set(found)) == len(found) <= 256


@pytest.mark.parametrize("name", ["k", "__tessera_counts"])
def test_a_kernel_may_have_the_name_of_the_counters(name: str) -> None:
    text = (_HEAD + _LOOP.format("%r9") + _TAIL).replace(".entry k(", f".entry {name}(")
    module = compiler.compile_ptx(text, capability=(8, 0))
    found, plans = instrument(module, weigh)
    assert container.decode(container.encode(found)).functions == found.functions
    assert (found is module) == (not plans) == (name != "k")


def test_counters_cost_at_most_one_check_per_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = "setp.eq.u32 %p1, %r9, {0};\n@%p1 bra E{0};\n" + 20 * "add.u32 %r8, %r8, %r0;\n"
    body = "".join((part + "E{0}:\n").format(number) for number in range(1, 41))
    module = compiler.compile_ptx(_HEAD + body + _TAIL, capability=(8, 0))
    row, looks = scoreboard._row, []
    monkeypatch.setattr(scoreboard, "_row", lambda one: looks.append(one) or row(one))
    _, plans = instrument(module, weigh)
    assert plans["k"].counters == 40
    assert len(looks) <= len(module.function("k").code)


@pytest.mark.parametrize("body", [_LOOP.format("4"), 400 * "add.u32 %r8, %r8, %r0;\n"])
def test_samples_are_weighted_by_their_cost(body: str) -> None:
    device, launches = Device(body), 10
    device.launch(1, 1, 0)
    weight = device.costs._weight
    tracemalloc.start()
    for number in range(1, launches):
        device.launch(1, 1, number)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(device.costs._samples) == launches
    assert taken < 32 * (device.costs._weight - weight)


def test_records_of_launches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_MOST_WEIGHT", 1 << 14)
    monkeypatch.setattr(costs, "_MOST_VARIANTS", 4)
    device = Device(_LOOP.format("%r9"))
    for number in range(60):
        assert device.launch(1, 1, number).counts is not None
    (known,) = device.costs._known.values()
    assert len(known.keys) == costs._MANY
    assert len(device.costs._samples) < 16
    for blocks in range(2, 12):
        assert device.launch(blocks, 1, 5).counts is not None
    assert len(device.costs._known) == 4
    assert device.costs._weight == sum(one.watch.weight for one in device.costs._samples.values())


@pytest.mark.parametrize("value", [1 << 55, 1 << 56, (1 << 64) - 1])
def test_counters_that_a_kernel_wrote_itself_do_not_overflow_the_clock(value: int) -> None:
    device = Device(_LOOP.format("%r9"))
    parameters = struct.pack("<QQI", device.source, device.source + 4 * device.words, 5)
    begun = device.costs.begin(1, Launch("k", (2, 1, 1), (32, 1, 1), parameters, 0), alone=True)
    plan = instrument(device.module, weigh)[1]["k"]
    end = plan.offset + plan.bytes
    device.memory[plan.offset : end] = value.to_bytes(8, "little") * (plan.bytes // 8)
    cost = device.costs.end(begun)
    assert cost.counts is not None
    assert bool(cost.counts.bound) == (value >= 1 << 56)
    assert 0 < 1e3 * cost.us < 1 << 63
