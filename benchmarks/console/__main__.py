"""Measure the console on a synthetic fleet, or take the pictures of docs/console.md.

``python -m benchmarks.console`` starts an API server that serves a fleet of H100s with seven slices
each, and `tessera ui` on it. The exit status is 1 if a goal is missed or, for lack of a browser,
cannot be measured. ``--pictures FOLDER`` takes pictures instead.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp.abc import AbstractResolver, ResolveResult

from benchmarks.console import (
    accessibility,
    browser,
    departures,
    hostile,
    keyboard,
    pictures,
    widths,
)

VIEWERS = 50
# Scroll through the page in 120 steps, one each frame; returns the times between frames.
_SCROLL = """new Promise(done => {
  const step = document.documentElement.scrollHeight / 120, times = [];
  let last = 0;
  const scroll = now => {
    if (last) times.push(now - last);
    last = now;
    if (times.length === 120) return done(times);
    window.scrollBy({top: step, behavior: 'instant'});
    requestAnimationFrame(scroll);
  };
  requestAnimationFrame(scroll);
})"""
_OBSERVE = """window.replaced = new Promise((done) => {
  const observer = new MutationObserver(() => { observer.disconnect(); done(true); });
  observer.observe(document.querySelector('.cards'), { childList: true });
}); true"""
IDLE_S = 20.0
GOALS = {  # upper bounds; docs/benchmarks.md has the goals with figures
    "first contentful paint, median of 5 (ms)": 1000,
    "update, median of 9 (ms)": 200,
    "update in the browser, median of 5 (ms)": 200,
    "private memory of the tab's process (MB)": 250,
    "idle, no viewer (cores)": 0.1,
    f"idle, {VIEWERS} viewers (cores)": 0.1,
    f"resident memory, {VIEWERS} viewers (MiB)": 150,
}


@dataclass(frozen=True, slots=True)
class Rig:
    """A running console: its URL with the token, its process, and the API server's URL."""

    url: str
    process: Process
    api: str
    started_s: float

    @property
    def base(self) -> str:
        """Return the URL without path and token."""
        return self.url.partition("/?")[0]

    def memory_mib(self, line: str) -> float:
        """Return a line of /proc/PID/status in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        field_line = next(row for row in text.splitlines() if row.startswith(line))
        return int(field_line.split()[1]) / 1024

    def cpu_s(self) -> float:
        """Return the CPU time that the console has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--axe", type=Path, metavar="FILE", help="axe.min.js: check the pages")
    parser.add_argument("--keyboard", action="store_true", help="follow links by the keyboard")
    parser.add_argument("--departures", action="store_true", help="delete objects of open pages")
    parser.add_argument("--hostile", action="store_true", help="follow links, with hostile names")
    parser.add_argument("--widths", action="store_true", help="check that nothing is cut off")
    options = parser.parse_args()
    uses_links = options.hostile or options.keyboard or options.departures or options.widths
    needs_browser = uses_links or options.axe or options.pictures
    if needs_browser and not browser.find_program():
        sys.exit(f"error: none of {', '.join(browser.PROGRAMS)} is installed")
    if options.hostile:
        number, findings = asyncio.run(_follow_links())
        print("\n".join(findings) or "no finding", f"in {number} pages")
        sys.exit(bool(findings))
    checks = {
        _use_keyboard: options.keyboard,
        _delete_objects: options.departures,
        _check_widths: options.widths,
    }
    for check, is_chosen in checks.items():
        if is_chosen:
            findings = asyncio.run(check())
            print("\n".join(findings) or "no finding")
            sys.exit(bool(findings))
    if options.axe is not None:
        findings = asyncio.run(_check_pages(options.axe.read_text()))
        print("\n".join(findings) or "no finding")
        sys.exit(bool(findings))
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
        asyncio.run(_take_pictures(options.pictures))
        return
    figures = asyncio.run(_measure(options.nodes))
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<58} {value!s:<10} {compare(name, value)}".rstrip())
    sys.exit(not all(name in figures and figures[name] <= goal for name, goal in GOALS.items()))


def compare(name: str, value: float) -> str:
    """Return the goal of a figure, and whether it is missed; empty without a goal."""
    if name not in GOALS:
        return ""
    return f"goal {GOALS[name]}{' MISSED' if value > GOALS[name] else ''}"


@contextlib.asynccontextmanager
async def open_rig(nodes: int, *, alike: bool, hostile_names: bool = False) -> AsyncIterator[Rig]:
    """Start the API server and the console."""
    port = _free_port()
    arguments = ["-m", "benchmarks.console.api_server", str(port), str(nodes)]
    arguments += ["--alike"] * alike + ["--hostile"] * hostile_names
    api = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    try:
        await _wait_for_port(port)
        with tempfile.TemporaryDirectory() as folder:
            file = _write_kubeconfig(folder, port)
            began = time.monotonic()
            console = await asyncio.create_subprocess_exec(
                "env",
                "--default-signal=INT",  # a shell's background jobs ignore it
                Path(sys.executable).with_name("tessera"),
                "ui",
                "--no-browser",
                "--kubeconfig",
                file,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                assert console.stdout is not None
                line = (await console.stdout.readline()).decode()
                url = line.strip().rpartition(" ")[2]
                yield Rig(url, console, f"http://127.0.0.1:{port}", began)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    console.terminate()
                await console.wait()
    finally:
        api.terminate()
        await api.wait()


class _Loopback(AbstractResolver):
    """Resolves every name to loopback, as browsers do with names below ``localhost``."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return 127.0.0.1."""
        del family
        address = ResolveResult(
            hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0
        )
        return [address]

    async def close(self) -> None:
        """Do nothing."""


def new_session() -> aiohttp.ClientSession:
    """Return a client that resolves the console's name and keeps its cookie."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Loopback(), limit=0),
        cookie_jar=aiohttp.CookieJar(unsafe=True),
    )


async def _measure(nodes: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"nodes": nodes, "load average before": os.getloadavg()[0]}
    async with (
        open_rig(nodes, alike=True) as rig,
        new_session() as session,
    ):
        await (await session.get(rig.url)).read()
        while True:
            if "still loading" not in await _text(session, rig.base):
                break
            await asyncio.sleep(0.2)
        figures["lists complete after (s)"] = round(time.monotonic() - rig.started_s, 2)
        await asyncio.sleep(8)  # the maps are rendered in advance
        figures["CPU until then (s)"] = round(rig.cpu_s(), 2)
        times = [await _time(session, rig.base) for _ in range(9)]
        figures["page of the fleet, median of 9 (ms)"] = round(1000 * statistics.median(times), 1)
        figures["page of the fleet (MB)"] = round(len(await _text(session, rig.base)) / 1e6, 2)
        figures["update, median of 9 (ms)"] = round(1000 * await _update(session, rig, 9), 1)
        figures["resident memory (MiB)"] = round(rig.memory_mib("VmRSS"), 1)
        figures["idle, no viewer (cores)"] = await _idle(rig)
        async with contextlib.AsyncExitStack() as viewers:
            for _ in range(VIEWERS):
                answer = session.get(f"{rig.base}/stream")
                await viewers.enter_async_context(answer)
            figures[f"idle, {VIEWERS} viewers (cores)"] = await _idle(rig)
            figures[f"resident memory, {VIEWERS} viewers (MiB)"] = round(rig.memory_mib("VmRSS"), 1)
        figures["peak of resident memory (MiB)"] = round(rig.memory_mib("VmHWM"), 1)
        if browser.find_program():
            figures |= await _paint(rig)
    figures["load average after"] = os.getloadavg()[0]
    return figures


async def _paint(rig: Rig) -> dict[str, Any]:
    """Measure the first paint and the memory of the page in a browser."""
    async with browser.open_browser() as page:
        await page.show_as(1360, 900)
        await page.open(rig.url)
        await page.wait_for("document.querySelectorAll('.card').length > 0")
        times = []
        for _ in range(5):
            await page.open(rig.base + "/")
            times.append(
                await page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0].startTime"
                )
            )
        frames = sorted(await page.evaluate(_SCROLL))
        updates = [await _update_in(page, rig) for _ in range(5)]
        await page.call("HeapProfiler.collectGarbage")
        heap = await page.call("Runtime.getHeapUsage")
        memory = page.memory_mb()
        elements = await page.evaluate("document.getElementsByTagName('*').length")
    return {
        "first contentful paint, median of 5 (ms)": round(statistics.median(times)),
        "update in the browser, median of 5 (ms)": round(1000 * statistics.median(updates)),
        "time of a frame while scrolling, median (ms)": round(statistics.median(frames), 1),
        "time of a frame while scrolling, 95 % (ms)": round(frames[len(frames) * 95 // 100], 1),
        "elements of the page": elements,
        "private memory of the tab's process (MB)": round(memory, 1),
        "script heap of the page (MB)": round(heap["usedSize"] / 1e6, 1),
    }


async def _update_in(page: browser.Page, rig: Rig) -> float:
    """Return the time from a change in the API server until the script has replaced the card."""
    await page.wait_for("document.getElementById('live').dataset.state === 'on'")
    await page.evaluate(_OBSERVE)
    began = time.perf_counter()
    async with aiohttp.ClientSession() as session:
        await session.post(f"{rig.api}/touch")
    async with asyncio.timeout(20):
        await page.evaluate("window.replaced")
    return time.perf_counter() - began


async def _update(session: aiohttp.ClientSession, rig: Rig, number: int) -> float:
    """Return the median time from a change in the API server until a viewer has its new card."""
    times = []
    async with session.get(f"{rig.base}/stream") as events:
        await _read_until(events, b"data:")  # all that has happened before
        for _ in range(number):
            began = time.perf_counter()
            changed = await (await session.post(f"{rig.api}/touch")).json()
            await _read_until(events, changed["node"].encode())
            await _text(session, f"{rig.base}/parts/nodes?name={changed['node']}")
            times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _read_until(events: aiohttp.ClientResponse, part: bytes) -> None:
    """Read the stream until a line contains ``part``. Raises TimeoutError after 20 s."""
    async with asyncio.timeout(20):
        async for line in events.content:
            if part in line:
                return


async def _idle(rig: Rig) -> float:
    start_cpu_s = rig.cpu_s()
    await asyncio.sleep(IDLE_S)
    return round((rig.cpu_s() - start_cpu_s) / IDLE_S, 4)


async def _time(session: aiohttp.ClientSession, url: str) -> float:
    began = time.perf_counter()
    await _text(session, url)
    return time.perf_counter() - began


async def _text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        answer.raise_for_status()
        return await answer.text()


async def _check_pages(axe: str) -> list[str]:
    async with open_rig(40, alike=False) as rig, browser.open_browser() as page:
        return await accessibility.check(page, rig.url, axe)


async def _check_widths() -> list[str]:
    async with open_rig(40, alike=False) as rig, browser.open_browser() as page:
        return await widths.check(page, rig.url)


async def _follow_links() -> tuple[int, list[str]]:
    async with open_rig(8, alike=False, hostile_names=True) as rig, browser.open_browser() as page:
        return await hostile.crawl(page, rig.url)


async def _use_keyboard() -> list[str]:
    async with (
        open_rig(8, alike=False) as rig,
        browser.open_browser() as page,
        aiohttp.ClientSession() as session,
    ):
        return await keyboard.check(page, rig.url, lambda: session.post(f"{rig.api}/touch"))


async def _delete_objects() -> list[str]:
    async with (
        open_rig(8, alike=False) as rig,
        browser.open_browser() as page,
        aiohttp.ClientSession() as session,
    ):
        address = f"{rig.api}/delete"
        return await departures.check(
            page,
            rig.url,
            lambda kind, key: session.post(address, params={"kind": kind, "key": key}),
        )


async def _take_pictures(folder: Path) -> None:
    async with open_rig(40, alike=False) as rig, browser.open_browser() as page:
        await pictures.take(page, rig.url, folder)


def _write_kubeconfig(folder: str, port: int) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "synthetic",
        "contexts": [{"name": "synthetic", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    file = Path(folder, "config")
    file.write_text(yaml.safe_dump(document))
    return file


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def _wait_for_port(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
