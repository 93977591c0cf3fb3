"""gpud's command line: the configuration that its options produce. Nothing is served."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vgpu_sim import config
from vgpu_sim.gpud import command as entry
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.options import NodeOptions
from vgpu_sim.hal.compute import limits

Start = Callable[..., NodeOptions]
TOKEN = bytes(range(32))
CAP_SETGID, CAP_SETUID = 6, 7  # linux/capability.h


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start gpud with these options and return the configuration to be served; callable
    repeatedly.
    """
    served: list[NodeOptions] = []

    async def serve(node: NodeOptions, *_: object) -> int:
        served.append(node)
        return 0

    monkeypatch.setattr(entry, "_serve", serve)
    monkeypatch.setattr(entry.processes, "adopt_orphans", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(5))
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(TOKEN.hex())

    def start(*options: str) -> NodeOptions:
        directories = ("--run-dir=of/run", "--state-dir=of/state", "--cgroup-root=none")
        done = CliRunner().invoke(entry.main, [*directories, *options])
        assert done.exit_code == 0, done.output
        return served[-1]

    return start


@pytest.mark.parametrize(
    ("options", "weak"),
    [((), False), (("--allow-weak-sandbox",), True), (("--token", "token"), True)],
    ids=["a node", "a node by option", "standalone"],
)
def test_a_weak_sandbox_is_allowed_by_option_or_if_harmless(
    start: Start, options: tuple[str, ...], weak: bool
) -> None:
    assert start(*options).workers.weak_sandbox is weak


def test_what_is_not_said_has_its_default(start: Start) -> None:
    node = start()
    own_uids = node.workers.own_uids
    assert node == NodeOptions(
        run_dir=Path("of/run"),
        state_dir=Path("of/state"),
        libraries_dir=config.LIBRARIES_DIR,
        token=None,
        budget_bytes=0,
        workers=WorkerSettings(
            backend="jit",
            threads=5,
            capability=None,
            own_uids=own_uids,
            strict_cpu=False,
            cache_root=Path("of/state/cache"),
            weak_sandbox=False,
            kernel_timeout_s=None,
            report_usage=False,
        ),
    )


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        ("--libraries-dir=there", {"libraries_dir": Path("there")}),
        ("--budget=4096", {"budget_bytes": 4096}),
        ("--cache-dir=there", {"cache_dir": Path("there"), "cache_root": Path("there")}),
        ("--backend=interp", {"backend": "interp"}),
        ("--threads=3", {"threads": 3}),
        ("--kernel-timeout=1.5", {"kernel_timeout_s": 1.5}),
        ("--report-usage", {"report_usage": True}),
        ("--cc=8.0", {"capability": (8, 0)}),
        ("--isolation=strict", {"strict_cpu": True}),
        ("--token=token", {"token": TOKEN, "own_uids": False, "weak_sandbox": True}),
    ],
)
def test_an_option_changes_what_it_names_and_nothing_else(
    start: Start, option: str, changed: dict[str, Any]
) -> None:
    before, after = flat(start()), flat(start(option))
    assert after == before | changed


def flat(node: NodeOptions) -> dict[str, Any]:
    fields = dataclasses.asdict(node)
    return {**fields.pop("workers"), **fields}


def test_there_are_no_more_threads_than_a_worker_may_have(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(limits.MAX_WORKER_THREADS + 1))
    assert start().workers.threads == limits.MAX_WORKER_THREADS


def test_its_directories_are_created_once_and_open_to_all_users(start: Start) -> None:
    """Users of a slice must reach its socket, which is below; no other user may list the
    directory.
    """
    mask = os.umask(0)
    try:
        start()
    finally:
        os.umask(mask)
    for directory in (Path("of/run"), Path("of/state")):
        assert directory.stat().st_mode & 0o777 == 0o711
    start()  # after a restart they are there


@pytest.mark.parametrize(
    ("capabilities", "own"),
    [
        ((CAP_SETGID, CAP_SETUID), True),
        ((CAP_SETGID,), False),
        ((CAP_SETUID,), False),
        ((CAP_SETGID - 1, CAP_SETUID + 1), False),
    ],
)
def test_slices_have_users_of_their_own_where_gpud_may_become_any(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capabilities: tuple[int, ...],
    own: bool,
) -> None:
    """The kernel's table has one bit per capability; the effective set counts."""
    effective = sum(1 << number for number in capabilities)
    (tmp_path / "self").mkdir()
    lines = ("CapPrm:\t000001ffffffffff", f"CapEff:\t{effective:016x}", "CapBnd:\t000001ffffffffff")
    (tmp_path / "self" / "status").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(entry.processes, "PROC", tmp_path)
    assert start().workers.own_uids is own
