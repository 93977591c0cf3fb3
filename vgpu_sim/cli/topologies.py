"""The ``--topology`` option: how the GPUs of a run lie to each other."""

import click

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import FLAT, PRESETS, topology_named
from vgpu_sim.perf.topology.custom import PREFIX


class _Named(click.Choice[str]):
    """A preset's name, or a description, which ``check`` reads."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it; what is neither is refused with the names that there are."""
        return value if value.startswith(PREFIX) else super().convert(value, param, ctx)


option = click.option(
    "--topology",
    type=_Named(list(PRESETS)),
    default=FLAT,
    show_default=True,
    help="PCI buses, NUMA nodes and NVLinks of the GPUs, as tools and NVML show them. One without a"
    " name is written custom:numa=1;nvlinks=0;gpus=10.0.0.0,11.0.0.0 (bus, NUMA node, host bridge,"
    " switch of each GPU; likewise hcas= and nvmes=; cxls=0.0.128.8.2: NUMA node, host bridge, GB,"
    " lanes, generation).",
)


between = click.option(
    "--topology",
    type=_Named(list(PRESETS)),
    help="How the node's GPUs and adapters lie to each other: a name, or a description as of"
    " tessera run --topology.",
)


def check(name: str, gpus: int) -> None:
    """Refuse a topology with too few places before anything starts. Raises click.BadParameter."""
    try:
        topology_named(name, gpus)
    except BadShape as err:
        raise click.BadParameter(str(err), param_hint="--topology") from err
