"""Places the slices of a run, and configures its gpud with them."""

from collections.abc import Sequence

import click

from facts.document import DEFAULT_FACTS, GpuFacts
from mig.geometry import Board, DeviceProfile, Instance
from mig.planner.rules import violations
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.hal.compute.address_map import MAX_GPUS


def layout(chosen: Board, device: DeviceProfile, count: int) -> list[list[Instance]]:
    """Return placements for ``count`` slices of one profile, as one list for each GPU.

    As few GPUs as possible are used. On each GPU, the placements with the lowest starts are used
    first.

    Raises:
        click.UsageError: the slices need more GPUs than the aperture has room for.
    """
    per_gpu: list[Instance] = []
    for candidate in device.places:
        if not violations(chosen, [*per_gpu, candidate]):
            per_gpu.append(candidate)
    if count > len(per_gpu) * MAX_GPUS and device.profile.is_whole:
        raise click.UsageError(f"--count {count}: a run has at most {MAX_GPUS} GPUs")
    if count > len(per_gpu) * MAX_GPUS:
        raise click.UsageError(
            f"--count {count}: {MAX_GPUS} GPUs hold at most {len(per_gpu) * MAX_GPUS} slices of"
            f" {device}"
        )
    full_gpus = [per_gpu] * (count // len(per_gpu))
    last_gpu = per_gpu[: count % len(per_gpu)]
    return [*full_gpus, last_gpu] if last_gpu else full_gpus


def configure(
    admin: AdminClient,
    chosen: Board,
    placed: Sequence[Sequence[Instance]],
    facts: GpuFacts = DEFAULT_FACTS,
) -> None:
    """Configure a new gpud's GPUs and slices. Raises AdminRefused, OSError."""
    gpus = [
        {"uuid": new_gpu_uuid(), "index": index, "board": chosen.key, **facts.to_json()}
        for index in range(len(placed))
    ]
    admin.call("configure", gpus=gpus, budget_bytes=0)
    for gpu, instances in zip(gpus, placed, strict=True):
        for instance in instances:
            admin.call(
                "create_instance",
                gpu_uuid=gpu["uuid"],
                profile=instance.device.name,
                start=instance.start,
                compute_start=instance.compute_start,
            )
