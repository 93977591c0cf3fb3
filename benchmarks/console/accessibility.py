"""Checks pages with axe-core, which the user supplies, and that narrow windows never scroll."""

import json
from collections.abc import AsyncIterator
from typing import Final

from benchmarks.console.browser import Page
from benchmarks.console.pictures import HISTORY, VIEWS, show_layout, show_what_if

_MORE: Final = {
    "whole": "/gpus/gpu-0003-gpu-3",
    "detail": "/?pool=rtx",
    "exporter": "/metrics/gpu-0003",
    "history": HISTORY,
    "busiest": "/metrics?sort=activity",
    "absent": "/gpus/none",
    "rolled-back": "/gpus/gpu-0006-gpu-1",
    "form": "/performance/attention?heads=0",
    "traffic": "/rdma/traffic",
}
_FORMS: Final = {"layout": show_layout, "what-if": show_what_if}
_RUN: Final = """axe.run().then((found) => JSON.stringify(
  found.violations.map((one) => [one.impact, one.id, one.nodes.length, one.nodes[0].html])))"""
_SCROLLS: Final = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"


async def open_all(page: Page, url: str) -> AsyncIterator[str]:
    """Open every view, one after the other, and yield its name."""
    base = url.partition("/?")[0]
    for name, path in {**VIEWS, **_MORE, "layout": "/layout", "what-if": ""}.items():
        await page.open(base + path)
        if name in _FORMS:
            await _FORMS[name](page, base)
        yield name


async def check(page: Page, url: str, axe: str) -> list[str]:
    """Return the findings on all pages, in light and dark colours."""
    await open_fleet(page, url)
    findings = []
    for dark in (False, True):
        await page.show_as(1280, 800, dark=dark)
        async for name in open_all(page, url):
            await page.evaluate(f"{axe}; true")
            findings += [
                f"{name}: {violation}" for violation in json.loads(await page.evaluate(_RUN))
            ]
    await page.show_as(390, 800)
    async for name in open_all(page, url):
        if await page.evaluate(_SCROLLS):
            findings.append(f"{name}: wider than a narrow window")
    return findings


async def open_fleet(page: Page, url: str) -> None:
    """Open the fleet, and wait until it is complete."""
    await page.open(url)
    await page.wait_for("document.querySelectorAll('.card').length === 40")
