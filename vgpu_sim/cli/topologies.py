"""The ``--topology`` option: how the GPUs of a run lie to each other."""

import click

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import FLAT, PRESETS, topology_named

option = click.option(
    "--topology",
    type=click.Choice(list(PRESETS)),
    default=FLAT,
    show_default=True,
    help="PCI buses, NUMA nodes and NVLinks of the GPUs, as tools and NVML show them.",
)


def check(name: str, gpus: int) -> None:
    """Refuse a topology with too few places before anything starts. Raises click.BadParameter."""
    try:
        topology_named(name, gpus)
    except BadShape as err:
        raise click.BadParameter(str(err), param_hint="--topology") from err
