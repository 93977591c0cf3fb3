"""The stream of changes that each open page follows: server-sent events.

An event names what has changed, and whether the watches work; it has no content. The page then
loads the part that it shows again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from console.model.cluster import ClusterModel

GATHER_S: Final = 0.05  # changes arrive in bursts
KEEP_ALIVE_S: Final = 20.0
MOST_NODES: Final = 64  # more changed nodes are not listed: the page is loaded again


async def follow(
    model: ClusterModel, version: int, is_over: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """Yield an event for each batch of changes after ``version``, until ``is_over``."""
    yield "retry: 2000\n\n"
    while not is_over():
        if not await model.wait(version, KEEP_ALIVE_S):
            yield ": alive\n\n"
            continue
        if is_over():
            return
        await asyncio.sleep(GATHER_S)
        changes = model.changes_since(version)
        version = changes.version
        few = changes.complete and len(changes.nodes) <= MOST_NODES
        drawn = few and bool(changes.nodes)
        document: dict[str, object] = {
            "version": version,
            "kinds": sorted(changes.kinds) if changes.complete else ["*"],
            "nodes": sorted(changes.nodes) if drawn else [],
        }
        document["watches"] = "on" if model.connection.is_live else "off"
        yield f"id: {version}\ndata: {json.dumps(document)}\n\n"
