"""``tessera smi topo`` shows how the node's GPUs are connected, in nvidia-smi's and NCCL's
formats.
"""

import click

from drawing import terminal
from drawing.network import network_lines
from vgpu_sim.cli import pictures
from vgpu_sim.cli.smi.command import read_view_or_exit
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.pictures import figure_of_network, network_of
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.perf.topology.texts import matrix, nccl_xml


@click.command(name="topo")
@pictures.with_pictures
@click.option(
    "-m", "--matrix", "as_matrix", is_flag=True, help="Print the matrix in nvidia-smi's format."
)
@click.option(
    "--xml", "as_xml", is_flag=True, help="Print a topology file for NCCL (NCCL_TOPO_FILE)."
)
def topo(as_matrix: bool, as_xml: bool) -> None:
    """Show how the GPUs of this node, or of this `tessera run`, are connected.

    The topology is the pool's spec.topology, or that of `tessera run --topology`.
    """
    request = pictures.current()
    draws = request.wants_files or request.draw is True
    if (as_matrix and as_xml) or not (as_matrix or as_xml or draws):
        raise click.UsageError("give either -m or --xml, or one of --svg, --html and --draw")
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
        network = network_of(topology, board, indices, 0)
        pictures.write_files(network.name, lambda: [figure_of_network(network)])
        if request.takes_stdout:
            return
        if request.draw:
            pictures.print_lines(network_lines(network, terminal.width()))
        if as_xml:
            click.echo(nccl_xml(topology, board, indices), nl=False)
        elif as_matrix:
            click.echo("\n".join(matrix(topology, board, indices)))
    except PerfError as err:
        raise click.ClickException(str(err)) from err
