"""``tessera smi topo`` shows how the node's GPUs are connected, in nvidia-smi's and NCCL's
formats.
"""

import click

from vgpu_sim.cli.smi.command import read_view_or_exit
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.perf.topology.texts import matrix, nccl_xml


@click.command(name="topo")
@click.option(
    "-m", "--matrix", "as_matrix", is_flag=True, help="Print the matrix in nvidia-smi's format."
)
@click.option(
    "--xml", "as_xml", is_flag=True, help="Print a topology file for NCCL (NCCL_TOPO_FILE)."
)
def topo(as_matrix: bool, as_xml: bool) -> None:
    """Show how the GPUs of this node, or of this `tessera run`, are connected.

    The topology is the pool's spec.topology. Programs cannot access other GPUs' memory yet,
    whatever the connection.
    """
    if as_matrix == as_xml:
        raise click.UsageError("give either -m or --xml")
    node = read_view_or_exit()
    named = [gpu.facts.topology for gpu in node.gpus if gpu.facts is not None]
    if len(named) < len(node.gpus):
        raise click.ClickException("slice sockets do not report the topology: run this on the node")
    try:
        topology = topology_named(named[0]) if named else None
        if topology is None or any(name != topology.name for name in named):
            raise click.ClickException("the GPUs of this node do not share one topology")
        board = board_named(node.gpus[0].board)
        indices = [gpu.index for gpu in node.gpus]
        if as_xml:
            click.echo(nccl_xml(topology, board, indices), nl=False)
        else:
            click.echo("\n".join(matrix(topology, board, indices)))
    except PerfError as err:
        raise click.ClickException(str(err)) from err
