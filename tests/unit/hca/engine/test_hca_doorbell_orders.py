"""No request is missed, however the engine's steps and a program's steps are interleaved.

tests/support/native/doorbell_orders runs the engine's thread and the library's code in all
orders of those steps that the other side can see. Mutants of both show that it detects lost
wake-ups.
"""

import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue

SUPPORT = Path(__file__).parents[3] / "support" / "native" / "doorbell_orders"
ENGINE, LIBRARY = catalogue.ENGINE, catalogue.RDMA_CLIENTS / "libibverbs"
WATCHED = [
    *(ENGINE / f"loop/{name}.c" for name in ("engine", "collect")),
    *(ENGINE / f"base/{name}.c" for name in ("doorbell", "complete")),
    LIBRARY / "command" / "ring.c",
]
"""Before each step in these files that the other side can see, the other side may run."""

OTHERS = [
    *(ENGINE / f"base/{name}.c" for name in ("queue", "function", "wait", "table")),
    *(ENGINE / one for one in ("loop/share.c", "control/objects.c")),
    SUPPORT / "orders.c",
]
FLAGS = (
    *("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffunction-sections"),
    *(f"-I{one}" for one in (ENGINE, LIBRARY, catalogue.GENERATED / LIBRARY.name)),
    *(f"-I{one}" for one in (catalogue.COMMON, catalogue.INCLUDE)),
)

Change = tuple[str, str, str]
"""A change: a file, a text that occurs once in it, and its replacement."""

NO_PLACE: Change = ("doorbell.c", "bells->polled_count == HCA_POLLED", "true")
"""Simulates that a function has reached the limit of polled programs."""

LOST: dict[str, tuple[Change, ...]] = {
    "the engine does not look again once it has said that it polls no more": (
        ("doorbell.c", "if (answer(client)) { /* it may", "if (false) { /* it may"),
    ),
    "the engine looks again, and only then says that it polls no more": (
        (
            "doorbell.c",
            "  set_sleeping(client, 1);\n  if (answer(client)) {",
            "  const bool again = answer(client);\n  set_sleeping(client, 1);\n  if (again) {",
        ),
    ),
    "the engine says that it polls a program for which it has no place": (
        NO_PLACE,
        (
            "doorbell.c",
            "until_ns = 0;\n  if (client->",
            "until_ns = 0;\n  set_sleeping(client, 0);\n  if (client->",
        ),
    ),
    "the engine empties a bell and does not read the page": (
        NO_PLACE,
        (
            "doorbell.c",
            "    poll_it(hca, client);\n    hca_read_soon(client);\n",
            "    poll_it(hca, client);\n",
        ),
    ),
    "the engine sleeps while it polls": (
        ("doorbell.c", "now_ns + HCA_POLL_NS", "now_ns + 10 * HCA_POLL_NS"),
        ("engine.c", " && hca->polled_count == 0", ""),
    ),
    "the library looks whether to ring before it says what for": (
        (
            "ring.c",
            "  __atomic_fetch_or(&dirty[index / 64], UINT64_C(1) << index % 64, __ATOMIC_SEQ_CST);\n"
            "  wake(context);\n",
            "  wake(context);\n"
            "  __atomic_fetch_or(&dirty[index / 64], UINT64_C(1) << index % 64, __ATOMIC_SEQ_CST);\n",
        ),
    ),
}
"""Changes that lose a wake-up: each must be detected."""


class Harness:
    """Object files of unchanged sources, each compiled only once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = {path.name: self.compile(path) for path in (*WATCHED, *OTHERS)}

    def compile(self, source: Path, original: Path | None = None) -> Path:
        original = original or source
        made = self.folder / f"{source.stem}-{len(list(self.folder.iterdir()))}.o"
        watched = ["-include", str(SUPPORT / "hooks.h")] if original in WATCHED else []
        command = [build.compiler(), *FLAGS, *watched, "-c", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
        return made

    def build(self, *changes: Change) -> Path:
        """Link a program with changed sources."""
        texts: dict[str, str] = {}
        originals = {path.name: path for path in WATCHED}
        for name, old, new in changes:
            text = texts.get(name) or originals[name].read_text()
            assert text.count(old) == 1, f"{name} has changed: {old}"
            texts[name] = text.replace(old, new)
        objects = dict(self.objects)
        for name, text in texts.items():
            changed = self.folder / name
            changed.write_text(text)
            objects[name] = self.compile(changed, originals[name])
        program = self.folder / f"orders-{len(list(self.folder.iterdir()))}"
        linked = ["-pthread", "-Wl,--gc-sections", *map(str, objects.values())]
        subprocess.run([build.compiler(), *linked, "-o", str(program)], check=True)
        return program


@pytest.fixture(scope="module")
def harness(tmp_path_factory) -> Harness:
    return Harness(tmp_path_factory.mktemp("orders"))


def carry_out(program: Path, requests: str, pace_ns: int) -> tuple[int, str]:
    """Return the program's status and output; ``requests`` are those of two threads in turn."""
    done = subprocess.run(
        [str(program), requests, str(pace_ns)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), (done.returncode, done.stdout, done.stderr)
    return done.returncode, done.stdout


@pytest.mark.parametrize("changes", [(), (NO_PLACE,)], ids=["polled", "rung each time"])
def test_no_order_loses_a_wakeup(harness, changes):
    """One thread makes two requests, or two make one each; polls are far apart or close in time."""
    program, orders = harness.build(*changes), 0
    for requests, pace_ns in (("q.q", 9000), ("q.a", 25000), ("qs", 25000)):
        status, printed = carry_out(program, requests, pace_ns)
        assert status == 0, (requests, pace_ns, printed)
        orders += int(printed.split()[0])
    assert orders > 10_000


@pytest.mark.parametrize("changes", LOST.values(), ids=LOST)
def test_a_lost_wakeup_is_found(harness, changes):
    program = harness.build(*changes)
    assert any(carry_out(program, "q.q", pace_ns)[0] == 1 for pace_ns in (9000, 25000))
