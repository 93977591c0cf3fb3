"""The worker's native runtime under sanitizers, driven by C programs in the role of the client.

Programs in ``tests/support/native/worker_harness``: ``order``: many streams, waits, full rings, all
parameter sizes; ``memory``: copies, fills and chunks; ``hostile``: requests that no client library
writes; ``fault``: kernels that fault; ``doze``: a worker on its client's CPU; ``nap``: requests
that arrive just before it sleeps; ``turns``: whose request is next, which kernel runs, what remains
of a removed one; ``overlap``: requests that wait for other streams' through memory, and
compilations; ``swap``: better code that arrives while a launch runs; ``again``: a second start;
``cta``: blocks whose groups of lanes wait for each other; ``interleave``: client library and worker
under random schedules (``schedules.h``); ``interleave_pool``: runners and helpers of the pool;
``rounds``: turns of blocks that wait for others that have not started.
``words``: what kernels pass to the functions of their thread state.
``latency`` only measures, and must still build.
"""

import functools
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from support.fuzzers import hostile_words
from support.kept import native_parts
from support.watches import rotation
from vgpu_sim.hal.compute import abi

ROOT = Path(__file__).parents[4]
WORKER = ROOT / "vgpu_sim/worker/runtime"
CLIENT = ROOT / "vgpu_sim/clients/libcuda"
HARNESS = ROOT / "tests/support/native/worker_harness"
SCHEDULES = ROOT / "tests/support/native/schedules"
INCLUDE = ROOT / "vgpu_sim/native/generated/include"
FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
SANITIZERS = {
    "plain": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
BUSY_S = 1800  # in idle time, beside tests that use all cores
Runtime = Callable[[str], tuple[Path, ...]]


def flags(sanitizer: str) -> list[str]:
    return [*FLAGS, *SANITIZERS[sanitizer], f"-I{WORKER}", f"-I{INCLUDE}"]


def compile_objects(
    sanitizer: str, directory: Path, sources: Iterable[Path], *more: str
) -> tuple[Path, ...]:
    """Compile each source, or take the object of an earlier run."""
    made = []
    for number, source in enumerate(sources):  # two may have one name
        output = directory / f"{source.stem}-{number}.o"
        done = native_parts.compile_kept([*flags(sanitizer), *more], source, output)
        expect_success(done, sanitizer)
        made.append(output)
    return tuple(made)


def link(sanitizer: str, program: Path, objects: Iterable[Path], *more: str) -> Path:
    command = ["cc", *flags(sanitizer), "-o", str(program), *map(str, objects), *more, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect_success(done, sanitizer)
    return program


def expect_success(done: subprocess.CompletedProcess[str], sanitizer: str) -> None:
    if "cannot find -l" in done.stderr or "libtsan" in done.stderr:
        pytest.skip(f"this compiler has no {sanitizer} sanitizer: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """Return, for a sanitizer, the objects with which every program is linked, compiled once."""

    @functools.cache
    def compile_worker(sanitizer: str) -> tuple[Path, ...]:
        sources = HARNESS / "client.c", *sorted(WORKER.rglob("*.c"))
        return compile_objects(sanitizer, tmp_path_factory.mktemp(sanitizer), sources)

    return compile_worker


def build(program: str, sanitizer: str, directory: Path, runtime: Runtime) -> Path:
    objects = compile_objects(sanitizer, directory, [HARNESS / f"{program}.c"])
    return link(sanitizer, directory / program, [*objects, *runtime(sanitizer)])


@pytest.mark.parametrize(
    ("program", "sanitizer"),
    [
        ("order", "plain"),
        ("order", "address"),
        # Only this program: others use addresses where the thread sanitizer keeps its own memory.
        ("order", "thread"),
        ("memory", "plain"),
        ("memory", "address"),
        ("hostile", "plain"),
        ("hostile", "address"),
        ("fault", "plain"),
        ("doze", "plain"),
        ("nap", "plain"),
        ("turns", "plain"),
        ("turns", "thread"),
        ("overlap", "plain"),
        ("overlap", "address"),
        ("overlap", "thread"),
        ("again", "plain"),
        ("swap", "plain"),
        ("swap alone", "plain"),  # on one thread
        ("swap", "address"),
        ("swap", "thread"),
        ("cta", "plain"),
        # Sanitizers install their own handlers for kernels' faults.
        ("cta good", "address"),
        ("cta good", "thread"),
    ],
)
def test_native_runtime(program: str, sanitizer: str, tmp_path: Path, runtime: Runtime) -> None:
    name, *arguments = program.split()
    command = [build(name, sanitizer, tmp_path, runtime), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUSY_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok")
    assert "WARNING" not in done.stderr


def test_turns_are_proportional_to_the_blocks_that_wait(tmp_path: Path) -> None:
    sources = HARNESS / "rounds.c", WORKER / "blocks" / "rounds.c"
    program = link("plain", tmp_path / "rounds", compile_objects("plain", tmp_path, sources))
    done = subprocess.run([program], capture_output=True, text=True, timeout=BUSY_S, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_latency_program_builds(tmp_path: Path, runtime: Runtime) -> None:
    build("latency", "plain", tmp_path, runtime)


_DATA = (
    "current_block",
    "status",
    "trap_word",
    "shared_base",
    "local_base",
    "block_index",
    "turns",
)
"""The fields of a thread state that are no functions."""
CALLED = tuple(name for name, *_ in abi.ThreadState._fields_ if name not in _DATA)
_WORDS = {"multiply": 4800}
"""The number of words with which each function is called; 20,000 for others."""


def link_words(directory: Path, objects: Iterable[Path]) -> Path:
    made = compile_objects("address", directory, [HARNESS / "words.c"])
    wrapped = "-Wl,--wrap=tw_die_of_trap,--wrap=mmap"
    return link("address", directory / "words", [*made, *objects], wrapped)


def call_with_words(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command, count = [program, *arguments], int(arguments[2]) if arguments else 0
    limit_s = hostile_words.limit_s(count)
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


def test_words_of_kernels_lead_no_function_beyond_its_memory(
    tmp_path: Path, runtime: Runtime
) -> None:
    """A seed that failed fails again: ``make fuzz words=1 seed=N``; n=1000000 draws more words."""
    program = link_words(tmp_path, runtime("address"))
    assert sorted(call_with_words(program).stdout.split()) == sorted(CALLED)
    count = os.environ.get(hostile_words.COUNT)
    seed = os.environ.get(hostile_words.SEED) or str(hostile_words.seed_of_day())
    for name in CALLED:
        words = count or str(_WORDS.get(name, 20_000))
        process = call_with_words(program, name, seed, words)
        assert process.returncode == 0, (name, seed, process.stdout + process.stderr)
        ok, good, _, total = process.stdout.split()
        assert (ok, total) == ("ok", words), process.stdout
        assert int(good) > 0, (name, seed, process.stdout)  # legal words are among them
        print(f"{name}: {process.stdout.strip()}")


def test_words_are_counted(tmp_path: Path, runtime: Runtime) -> None:
    """A product has 16 words."""
    program = link_words(tmp_path, runtime("address"))
    for count, products in (("1", 1), ("16", 1), ("17", 2), ("160", 10)):
        process = call_with_words(program, "multiply", "1", count)
        assert process.returncode == 0, process.stderr
        assert process.stdout.split()[-1] == count
        assert int(process.stdout.split()[1]) <= products


def test_the_limit_of_a_function_follows_from_its_number_of_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert hostile_words.main(10**6, 1) == hostile_words.main(10**7, 1) == 0
    for command, count in zip(commands, (10**6, 10**7), strict=True):
        product_s = 0.002 * count / 16
        assert hostile_words.limit_s(count) >= BUSY_S + 4 * product_s
        whole_s = float(command[command.index("--timeout") + 1])
        assert whole_s >= len(CALLED) * hostile_words.limit_s(count)


def test_words_are_others_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = set()
    for day in range(20_000, 20_010):
        monkeypatch.setenv(rotation.VARIABLE, str(day))
        seeds.add(hostile_words.seed_of_day())
    assert len(seeds) == 10


def test_a_field_that_is_not_tested_is_detected(tmp_path: Path, runtime: Runtime) -> None:
    text, test = (WORKER / "blocks/tensor.c").read_text(), "field < SCALES_FIELDS"
    assert text.count(test) == 1
    changed = tmp_path / "untested.c"
    changed.write_text(text.replace(test, "field <= SCALES_FIELDS"))
    objects = [path for path in runtime("address") if not path.name.startswith("tensor-")]
    assert len(objects) == len(runtime("address")) - 1
    objects += compile_objects("address", tmp_path, [changed])
    process = call_with_words(link_words(tmp_path, objects), "multiply", "1", "48000")
    assert process.returncode != 0
    assert "untested.c" in process.stderr, process.stderr


SCHEDULED = {
    "interleave": (
        *(HARNESS / f"{name}.c" for name in ("interleave", "interleave_client", "absent_parts")),
        SCHEDULES / "healthy_context.c",
        *(WORKER / "base" / name for name in ("leader.c", "timeline.c")),
        *(
            WORKER / "requests" / name
            for name in ("scheduler.c", "ring.c", "lists.c", "graphs.c", "children.c")
        ),
        *(CLIENT / "exchange" / name for name in ("list.c", "ring.c", "doorbell.c", "wait.c")),
    ),
    "interleave_pool": (
        HARNESS / "interleave_pool.c",
        WORKER / "base" / "pool.c",
        WORKER / "blocks" / "residents.c",
        WORKER / "blocks" / "room.c",
        WORKER / "blocks" / "rounds.c",
    ),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_no_schedule_loses_a_call_or_a_block(tmp_path: Path, name: str) -> None:
    """A seed that failed fails again: ``interleave 1 SEED``."""
    more = "-U_FORTIFY_SOURCE", "-include", str(SCHEDULES / "schedules.h")
    folders = f"-I{SCHEDULES}", f"-I{CLIENT}", f"-I{CLIENT.parent / 'common'}"
    sources = *SCHEDULED[name], *(SCHEDULES / f"{one}schedules.c" for one in ("", "random_"))
    objects = compile_objects("plain", tmp_path, sources, *more, *folders)
    program = link("plain", tmp_path / name, objects)
    done = subprocess.run([program], capture_output=True, text=True, timeout=BUSY_S, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
