"""No wake-up is lost between client library and worker, in any order of their steps.

``tests/support/native/worker_harness/all_orders.c`` runs the code of both sides under all
schedules of small instances, on x86 and on weakly ordered memory: rings of two slots, and loops
that look once before a thread sleeps. With one runner of the worker the search is complete; with
several, at most two threads are interrupted that could have continued. Changed sources show that
the search detects lost wake-ups.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
WORKER = ROOT / "vgpu_sim/worker/runtime"
CLIENT = ROOT / "vgpu_sim/clients/libcuda"
HARNESS = ROOT / "tests/support/native/worker_harness"
SCHEDULES = ROOT / "tests/support/native/schedules"
SOURCES = (
    *(HARNESS / f"{name}.c" for name in ("all_orders", "all_orders_client", "absent_parts")),
    *(SCHEDULES / f"{name}.c" for name in ("schedules", "all_schedules", "healthy_context")),
    *(WORKER / "base" / f"{name}.c" for name in ("leader", "timeline")),
    *(
        WORKER / "requests" / f"{name}.c"
        for name in ("scheduler", "ring", "lists", "children", "graphs")
    ),
    *(CLIENT / "exchange" / f"{name}.c" for name in ("list", "ring", "doorbell", "wait")),
)
INCLUDED = (
    *(WORKER, ROOT / "vgpu_sim/native/generated/include", CLIENT, CLIENT.parent / "common"),
    *(HARNESS, SCHEDULES),
)
FLAGS = (
    *("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-U_FORTIFY_SOURCE"),
    "-ftrivial-auto-var-init=zero",  # bytes of no meaning would make states differ
    *("-include", str(SCHEDULES / "schedules.h"), "-include", str(SCHEDULES / "small.h")),
    *(f"-I{folder}" for folder in INCLUDED),
)
Change = tuple[str, str, str]
"""A file of one side, a text that occurs once in it, and its replacement."""

SMALL: tuple[Change, ...] = (
    ("scheduler", "LOOKS_PER_CLOCK = 32", "LOOKS_PER_CLOCK = 1"),
    ("wait", "CHECK_EVERY = 16", "CHECK_EVERY = 1"),
)
INSTANCES = (
    *("x86,apart 1 0", "x86,switches=2 2 0", "x86,apart,switches=1 2 a1"),
    "arm,apart,switches=1 3 0b",
)
"""Arguments of all_orders, which its source explains."""

LARGE_INSTANCES = (
    *("x86 1 0", "arm 1 0", "x86,apart 1 0w0", "arm,apart 1 0w0"),
    *("x86,apart,switches=2 3 0b", "x86,apart,switches=1 2 0 1", "arm,switches=2 3 a1"),
)
"""Minutes each: `make soak` tries them."""

LOST: dict[str, tuple[str, Change]] = {
    "the client looks whether the worker sleeps before the request is visible": (
        "x86,apart 1 0",
        ("ring", "  atomic_thread_fence(memory_order_seq_cst);\n  tsr_rang", "  tsr_rang"),
    ),
    "the client reads the progress after it has looked whether it must wait": (
        "x86,apart 1 0",
        (
            "wait",
            "  const uint32_t progress = __atomic_load_n(&page->progress, __ATOMIC_SEQ_CST);\n"
            "  if (!tsr_counter_reached(counter, value) && "
            "!__atomic_load_n(&page->error, __ATOMIC_ACQUIRE)) {\n",
            "  if (!tsr_counter_reached(counter, value) && "
            "!__atomic_load_n(&page->error, __ATOMIC_ACQUIRE)) {\n"
            "  const uint32_t progress = __atomic_load_n(&page->progress, __ATOMIC_SEQ_CST);\n",
        ),
    ),
    "the client rings only once": (
        "x86,apart,switches=2 1 0w0",
        (
            "doorbell",
            "atomic_exchange(&context->rung, nap) == nap",
            "atomic_exchange(&context->rung, nap != 0) != 0",
        ),
    ),
    "the worker looks for requests, and only then says that it sleeps": (
        "x86,apart 1 0",
        (
            "leader",
            "  announce_nap(how);\n  if (any_news() || stop_requested()) {",
            "  const bool news = any_news() || stop_requested();\n  announce_nap(how);\n  if (news) {",
        ),
    ),
    "the worker reads the bell after it has looked for requests": (
        "x86,apart 1 0",
        (
            "leader",
            "  tw_futex_wait(&tw.client->bell, bell, limit_ns);",
            "  tw_futex_wait(&tw.client->bell, LOAD(tw.client->bell) + 0 * bell, limit_ns);",
        ),
    ),
    "the worker reports progress before the timeline": (
        "x86,apart 1 0",
        (
            "timeline",
            "  if (alive) __atomic_store_n(&tw.page->timeline[stream_index], value, __ATOMIC_RELEASE);\n",
            "  if (alive) wake_client();\n"
            "  if (alive) __atomic_store_n(&tw.page->timeline[stream_index], value, __ATOMIC_RELEASE);\n"
            "  alive = false;\n",
        ),
    ),
    "a thread that has run a long request does not say so": (
        "x86,apart,switches=2 3 0b",
        ("leader", "  ADD(elsewhere, -1);\n  ADD(completions, 1);\n", "  ADD(elsewhere, -1);\n"),
    ),
    "a request starts before what it waits for": (
        "x86,apart,switches=1 2 a1",
        ("scheduler", "  return waits_reached(slot) && tw", "  return tw"),
    ),
}
"""Changes that lose a wake-up or the order, and an instance that shows it."""


class Harness:
    """Object files of unchanged sources, each compiled only once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = {source: self.compile(source, SMALL) for source in SOURCES}

    def compile(self, source: Path, changes: tuple[Change, ...]) -> Path:
        text = source.read_text()
        for name, old, new in changes:
            if source.parent in (HARNESS, SCHEDULES) or source.stem != name or old not in text:
                continue
            assert text.count(old) == 1, f"{source.name} has changed: {old}"
            text = text.replace(old, new)
        number = len(list(self.folder.iterdir()))
        changed = self.folder / f"{number}_{source.name}"
        changed.write_text(text)
        made = changed.with_suffix(".o")
        subprocess.run(["cc", *FLAGS, "-c", str(changed), "-o", str(made)], check=True)
        return made

    def build(self, *changes: Change) -> Path:
        objects = dict(self.objects)
        for name, old, _new in changes:
            source = next(one for one in SOURCES if one.stem == name and old in one.read_text())
            objects[source] = self.compile(source, (*SMALL, *changes))
        program = self.folder / f"orders_{len(list(self.folder.iterdir()))}"
        command = ["cc", "-pthread", *map(str, objects.values()), "-o", str(program)]
        subprocess.run(command, check=True)
        return program


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("orders"))


def carry_out(program: Path, instance: str) -> tuple[int, str]:
    done = subprocess.run(
        [program, *instance.split()], capture_output=True, text=True, timeout=3000, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_no_order_loses_a_wakeup(harness: Harness) -> None:
    program = harness.build()
    large = LARGE_INSTANCES if os.environ.get("TESSERA_LARGE_SEARCHES") else ()
    for instance in (*INSTANCES, *large):
        status, output = carry_out(program, instance)
        assert status == 0, (instance, output)
        assert output.startswith("ok: "), instance


@pytest.mark.parametrize("change", LOST)
def test_lost_wakeups_are_detected(harness: Harness, change: str) -> None:
    instance, *changes = LOST[change]
    status, output = carry_out(harness.build(*changes), instance)
    assert status == 1, output
