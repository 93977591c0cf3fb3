"""`tessera ui` as a process: on loopback alone, behind its token, until Ctrl-C."""

import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from benchmarks.console.__main__ import Rig, new_session, open_rig

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "%s"}}]
users: [{name: u, user: {}}]
"""
TESSERA = Path(sys.executable).with_name("tessera")


def use_console(use: Callable[[Rig, aiohttp.ClientSession], Awaitable[None]]) -> None:
    async def body() -> None:
        async with open_rig(2, alike=True) as rig, new_session() as session:
            await use(rig, session)

    asyncio.run(body())


def listening_addresses(pid: int) -> set[str]:
    """Return the local addresses, in hexadecimal, of the process's TCP sockets that listen."""
    folder = Path(f"/proc/{pid}/fd")
    sockets = {os.readlink(one) for one in folder.iterdir() if one.exists() or one.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def test_the_printed_url_opens_the_fleet_and_an_interrupt_ends_the_console() -> None:
    async def use(rig: Rig, session: aiohttp.ClientSession) -> None:
        assert re.match(r"http://tessera-[0-9a-f]{32}\.localhost:[0-9]+/\?token=", rig.url)
        found = listening_addresses(rig.process.pid)
        assert found - {"00000000000000000000000001000000"} == {"0100007F"}
        async with session.get(rig.base) as answer:
            assert answer.status == 401
        async with session.get(rig.url) as answer:
            assert answer.status == 200
        text = ""
        while "gpu-0001" not in text or "still loading" in text:
            async with session.get(rig.base) as answer:
                text = await answer.text()
            await asyncio.sleep(0.05)
        assert "<b>96</b> held" in text  # 2 nodes, 8 GPUs, 6 of 7 slices
        port = rig.base.rpartition(":")[2]
        for host in ("rebound.example", f"127.0.0.1:{port}", f"localhost:{port}"):
            async with session.get(rig.base, headers={"Host": host}) as answer:
                assert answer.status == 421
        async with session.get(f"{rig.base}/stream") as events:
            await session.post(f"{rig.api}/touch")
            async for line in events.content:
                if b'"gpu-0000"' in line:
                    break
            rig.process.send_signal(signal.SIGINT)
            status = await asyncio.wait_for(rig.process.wait(), 10)
        assert status == -signal.SIGINT
        assert rig.process.stderr is not None
        assert "Traceback" not in (await rig.process.stderr.read()).decode()

    use_console(use)


def test_the_kubectl_plugin_draws_the_map_in_colour_on_a_terminal(tmp_path: Path) -> None:
    async def use(rig: Rig, session: aiohttp.ClientSession) -> None:
        del session
        program = "from console.kubectl.entry import main; main()"
        file = tmp_path / "config"
        file.write_text(KUBECONFIG % rig.api)
        command = [sys.executable, "-c", program, "map", "--kubeconfig", str(file)]
        plain = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert plain.returncode == 0, plain.stderr
        assert plain.stderr == ""
        assert plain.stdout.count("8 free, 48 held") == 2
        assert "\x1b" not in plain.stdout
        shown = await asyncio.to_thread(run_on_terminal, command, {"TERM": "xterm"})
        assert "\x1b[34m" in shown
        assert re.sub(r"\x1b\[[0-9;]*m", "", shown).split() == plain.stdout.split()

    use_console(use)


def run_on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Run a command on a terminal of its own with 80 columns, and return what it prints."""
    ours, its = os.openpty()
    termios.tcsetwinsize(its, (24, 80))
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    started = subprocess.Popen(command, stdout=its, env=kept | environment)
    os.close(its)
    data = b""
    try:
        while part := os.read(ours, 65536):
            data += part
    except OSError as err:  # the program has closed the terminal
        assert err.errno == errno.EIO  # noqa: PT017
    finally:
        os.close(ours)
    assert started.wait(10) == 0
    return data.decode()


def test_without_a_cluster_the_command_names_the_remedy(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("apiVersion: v1\nkind: Config\ncontexts: []\n")
    for file, problem in ((tmp_path / "none", "no such file"), (empty, "current-context")):
        arguments = ["--kubeconfig", str(file)]
        done = subprocess.run(
            [TESSERA, "ui", "--no-browser", *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2
        assert "error: no access to a cluster: " in done.stderr
        assert problem in done.stderr


def test_a_missing_extra_is_one_line() -> None:
    program = (
        "import sys; sys.modules['starlette.applications'] = None; "
        "from vgpu_sim.cli.main import main; main(['ui', '--port', '1'], prog_name='tessera')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'tessera[console]'" in done.stderr
    assert done.stderr.count("\n") == 1
