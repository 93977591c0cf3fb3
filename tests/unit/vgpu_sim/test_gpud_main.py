"""gpud's command line: what its options become. Nothing is served."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.gpud import __main__ as entry
from vgpu_sim.gpud.daemon import NodeOptions


@pytest.mark.parametrize(
    ("options", "weak"),
    [((), False), (("--allow-weak-sandbox",), True), (("--token", "token"), True)],
    ids=["a node", "a node that is told so", "standalone"],
)
def test_walls_may_be_missing_where_that_is_said_or_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], weak: bool
) -> None:
    served: list[NodeOptions] = []

    async def serve(node: NodeOptions, *_: object) -> int:
        served.append(node)
        return 0

    monkeypatch.setattr(entry, "_serve", serve)
    monkeypatch.setattr(entry.processes, "adopt_orphans", lambda: None)
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("00" * 32)
    directories = ("--run-dir=run", "--state-dir=state", "--cgroup-root=none")
    done = CliRunner().invoke(entry.main, [*directories, *options])
    assert done.exit_code == 0, done.output
    assert [node.workers.weak_sandbox for node in served] == [weak]
