"""The ``--topology`` option: how the GPUs of a run are connected."""

import click

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import FLAT, PRESETS, topology_named
from vgpu_sim.perf.topology.custom import PREFIX


class _Named(click.Choice[str]):
    """A click type for a topology: a preset's name, or a description that ``check`` parses
    later.
    """

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value; refuse an unknown name with the list of known ones."""
        return value if value.startswith(PREFIX) else super().convert(value, param, ctx)


option = click.option(
    "--topology",
    type=_Named(list(PRESETS)),
    default=FLAT,
    show_default=True,
    help="PCI buses, NUMA nodes and NVLinks of the GPUs, as tools and NVML show them. A topology"
    " without a"
    " name is written custom:numa=1;nvlinks=0;gpus=10.0.0.0,11.0.0.0 (for each GPU its bus, NUMA"
    " node, host bridge and switch; hcas= and nvmes= have the same form; cxls=0.0.128.8.2: NUMA"
    " node, host bridge, GB, lanes, generation).",
)


between = click.option(
    "--topology",
    type=_Named(list(PRESETS)),
    help="How the node's GPUs and adapters are connected: a name, or a description as for"
    " tessera run --topology.",
)


def check(name: str, gpus: int) -> None:
    """Check, before a daemon starts, that the topology ``name`` has places for ``gpus`` GPUs.
    Raises click.BadParameter.
    """
    try:
        topology_named(name, gpus)
    except BadShape as err:
        raise click.BadParameter(str(err), param_hint="--topology") from err
