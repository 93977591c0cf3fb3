"""Concurrent parts of the operator, which end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts until the first one ends, and cancel the others.

    If a part failed, its exception is raised.
    """
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        ended_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended_tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
