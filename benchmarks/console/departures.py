"""Checks that a page whose object is deleted while it is open says so, and then rests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from benchmarks.console.browser import Page

_GPU: Final = "gpu-0002-gpu-1"
_DRAWINGS: Final = "document.querySelectorAll('main .gpu-picture, main .drawing').length"
_LOADS: Final = "performance.getEntriesByType('resource').length"
_REST_S: Final = 8.0  # longer than pages with figures wait before they are loaded again
_SLICE: Final = "document.querySelector('main a[href^=\"/slices/\"]').getAttribute('href')"


async def check(page: Page, url: str, delete: Callable[[str, str], Awaitable[object]]) -> list[str]:
    """Return the findings. ``delete`` removes the object of a kind from the cluster."""
    base = url.partition("/?")[0]
    await page.open(url)
    await page.open(f"{base}/gpus/{_GPU}")
    of_slice = str(await page.evaluate(_SLICE))
    findings = []
    cases = (
        ("/pods/training/worker-0", "Pod", "training/worker-0", "/pods"),
        ("/faults/xid-48-drill", "GPUFault", "xid-48-drill", "/events?lane=fault"),
        (f"/gpus/{_GPU}", "GPU", _GPU, "/"),
        (of_slice.replace("gpu-0002-1", "gpu-0002-2"), "GPU", "gpu-0002-gpu-2", "/slices"),
    )
    for path, kind, key, list_page in cases:
        await page.open(base + path)
        await page.wait_for("document.getElementById('live').dataset.state === 'on'")
        title = await page.evaluate("document.querySelector('h1').textContent")
        await delete(kind, key)
        try:
            await page.wait_for("document.getElementById('gone') !== null", 20)
        except TimeoutError:
            findings.append(f"{path}: the open page does not say that the object is gone")
            continue
        text = await page.evaluate("document.getElementById('gone').textContent")
        if "deleted at" not in text:
            findings.append(f"{path}: no time: {text}")
        if await page.evaluate("document.querySelector('h1').textContent") != title:
            findings.append(f"{path}: the last known facts are not shown")
        if await page.evaluate(_DRAWINGS):
            findings.append(f"{path}: a drawing is still shown")
        load_count = await page.evaluate(_LOADS)
        await asyncio.sleep(_REST_S)
        if (later_load_count := await page.evaluate(_LOADS)) != load_count:
            findings.append(
                f"{path}: {later_load_count - load_count} requests after the object is gone"
            )
        await page.open(base + path)
        status = "performance.getEntriesByType('navigation')[0].responseStatus"
        if await page.evaluate(status) != 404:
            findings.append(f"{path}: the page opened later has not status 404")
        link = f"document.querySelector('main a[href=\"{list_page}\"]') !== null"
        if not await page.evaluate(link):
            findings.append(f"{path}: the page opened later has no link to {list_page}")
    return findings
