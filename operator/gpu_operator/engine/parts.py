"""Parts of the operator that work side by side, and stand or fall together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Return when the first part does, or raise what ended it; the others are cancelled."""
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
