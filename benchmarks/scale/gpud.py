"""A stand-in for gpud: the administration sockets of many nodes, with GPUs that are plain values.

Nothing is executed. Requests and answers are those in docs/gpud-admin.md, and use
``vgpu_sim.hal.management.admin``; a node that is ``slow`` answers late.
"""

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mig import geometry, planner
from mig.errors import MigError
from vgpu_sim.hal.management import admin

_LIMIT_BYTES = 4 << 20


class Refused(Exception):
    """An error that gpud returns."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NodeGpus:
    """One node's GPUs."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.late_s = late_s
        self._gpus: dict[str, admin.Gpu] = {}
        self._budget = 0

    def inventory(self) -> dict[str, Any]:
        parts = {"landlock": True, "seccomp": True}
        return admin.Inventory(
            version="scale",
            libraries_dir="/lib",
            slices_dir="/run",
            isolation=admin.Isolation(True, ""),
            sandbox=admin.Sandbox(parts, False),
            budget=admin.Budget(self._budget, 0),
            gpus=tuple(self._gpus.values()),
        ).to_json()

    def configure(self, gpus: list[dict[str, Any]], budget_bytes: int) -> dict[str, Any]:
        self._budget = budget_bytes
        self._gpus = {g["uuid"]: self._gpus.get(g["uuid"]) or _gpu(g) for g in gpus}
        return {}

    def create_instance(
        self, gpu_uuid: str, profile: str, start: int, owner: str = "", owner_name: str = ""
    ) -> dict[str, Any]:
        gpu = self._gpus[gpu_uuid]
        board = geometry.board(gpu.board)
        candidate = geometry.Instance(board.profile(profile), start)
        placed_instances = [
            geometry.Instance(board.profile(i.profile), i.start) for i in gpu.instances
        ]
        try:
            planner.check(board, [*placed_instances, candidate])
        except MigError as err:
            raise Refused("invalid", str(err)) from err
        whole = candidate.profile.is_whole
        instance = admin.Instance(
            uuid=gpu_uuid if whole else f"MIG-{uuid.uuid4()}",
            profile=profile,
            start=start,
            size=candidate.profile.size,
            memory_bytes=candidate.profile.memory_bytes,
            multiprocessors=candidate.profile.sm_count,
            memory_used_bytes=0,
            socket_dir="/run",
            admit=True,
            holders=(),
            contexts=(),
            gi_id=start,
            ci_id=0,
            counters=admin.Counters(),
            activity=admin.Activity(),
            owner=owner,
            owner_name=owner_name,
        )
        instances = (*gpu.instances, instance)
        self._gpus[gpu_uuid] = replace(gpu, instances=instances, mig_enabled=not whole)
        return {"uuid": instance.uuid}

    def destroy_instance(self, uuid: str, owner: str = "", evict: bool = False) -> dict[str, Any]:
        del owner, evict  # there are no claims here
        for gpu in self._gpus.values():
            remaining_instances = tuple(i for i in gpu.instances if i.uuid != uuid)
            if len(remaining_instances) < len(gpu.instances):
                self._gpus[gpu.uuid] = replace(gpu, instances=remaining_instances, mig_enabled=True)
                return {}
        raise Refused("not_found", f"no instance {uuid}")

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request. Raises Refused."""
        calls: dict[str, Callable[..., dict[str, Any]]] = {
            "inventory": self.inventory,
            "configure": self.configure,
            "create_instance": self.create_instance,
            "destroy_instance": self.destroy_instance,
        }
        if method in ("set_holders", "set_sharing", "subscribe"):
            return {}
        if method not in calls:
            raise Refused("unknown_method", method)
        try:
            return calls[method](**params)
        except TypeError as err:  # the agent uses a parameter that this stand-in lacks
            raise Refused("invalid", str(err)) from err


async def serve(path: Path, node: NodeGpus) -> asyncio.AbstractServer:
    """Serve one node's administration socket."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = json.loads(line)
                if node.late_s:
                    await asyncio.sleep(node.late_s)
                answer: dict[str, Any] = {"id": request["id"]}
                try:
                    answer["result"] = node.call(request["method"], request["params"])
                except Refused as err:
                    answer["error"] = {"code": err.code, "message": str(err)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    return await asyncio.start_unix_server(client, str(path), limit=_LIMIT_BYTES)


def _gpu(request: Mapping[str, Any]) -> admin.Gpu:
    board = geometry.board(request["board"])
    return admin.Gpu(
        uuid=request["uuid"],
        index=request["index"],
        board=board.key,
        product=board.product_name,
        memory_bytes=board.memory_bytes,
        multiprocessors=board.sm_count,
        capability=board.compute_capability,
        health="Healthy",
        instances=(),
        mig_enabled=True,
        pci_bus_id=f"00000000:{request['index']:02X}:00.0",
        telemetry=_TELEMETRY,
    )


_TELEMETRY = admin.Telemetry(
    activity=admin.Activity(),
    gpu_utilization_percent=0,
    memory_utilization_percent=0,
    sm_clock_mhz=0,
    memory_clock_mhz=0,
    max_sm_clock_mhz=0,
    max_memory_clock_mhz=0,
    power_draw_mw=0,
    power_limit_mw=0,
    energy_mj=0,
    temperature_c=0,
    memory_temperature_c=0,
    slowdown_temperature_c=0,
    shutdown_temperature_c=0,
    fans_percent=(),
    performance_state=0,
    pcie_tx_bytes_per_s=0,
    pcie_rx_bytes_per_s=0,
)
