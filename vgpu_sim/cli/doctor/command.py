"""``tessera doctor`` checks this machine, the cluster of the kubeconfig, or a framework."""

import sys
from pathlib import Path

import click
import yaml

from diagnosis import findings
from drawing.terminal import clean
from vgpu_sim.cli import boards
from vgpu_sim.cli.doctor import cluster, framework, host, node
from vgpu_sim.cli.run import preload


@click.command()
@click.option(
    "--framework",
    "framework_name",
    type=click.Choice(sorted(framework.MODULES)),
    help="Check the environment of this framework instead.",
)
@click.option(
    "--python",
    "python",
    default="python",
    show_default=True,
    metavar="PROGRAM",
    help="With --framework: check the packages of this Python.",
)
@click.option(
    "--board",
    default="h100-80gb",
    show_default=True,
    metavar="BOARD",
    callback=boards.to_key,
    shell_complete=boards.complete,
    help="With --framework: board of the GPU, outside of `tessera run`.",
)
@click.option(
    "--preload",
    "preload_choice",
    type=click.Choice(preload.CHOICES),
    help="With --framework: check what `tessera run --preload` finds, outside of `tessera run`.",
)
@click.option("--node", "is_node", is_flag=True, help="Check a node, even without a kubelet.")
@click.option("--no-compute", is_flag=True, help="Do not run a program on a simulated GPU.")
@click.option("--no-cluster", is_flag=True, help="Do not connect to a cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the operator.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to use; default: as kubectl chooses.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json", "yaml")),
    default="text",
    show_default=True,
    help="Format of the findings.",
)
def command(
    framework_name: str | None,
    python: str,
    board: str,
    preload_choice: str | None,
    is_node: bool,
    no_compute: bool,
    no_cluster: bool,
    context: str | None,
    namespace: str,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Check whether Tessera works here, and print what to change.

    It checks this machine, on a Kubernetes node also the node, and the cluster of the kubeconfig
    if there is one. A program computes on a simulated GPU.

    With --framework torch it checks the wheel, the plug-in, which libraries win, the compiler,
    the caches and the device. In a pod, run `python -m tessera_torch.doctor`.

    The exit status is 0 if everything works, with or without warnings, and 1 if something does
    not. With --framework it is that of `tessera run` if the GPU or Python could not be started.
    """
    if framework_name is not None:
        if output == "yaml":
            raise click.UsageError("--framework has no YAML output; -o json has the same document")
        framework.check(framework_name, python, board, preload_choice, output)
        return
    all_findings = host.check_all(compute=not no_compute)
    if is_node or node.is_node():
        all_findings += node.check_all()
    if not no_cluster:
        all_findings += cluster.check_all(kubeconfig, context, namespace)
    write(all_findings, output)
    sys.exit(1 if findings.has_failure(all_findings) else 0)


def write(all_findings: list[findings.Finding], output: str) -> None:
    """Print findings as text, JSON or YAML."""
    if output == "json":
        click.echo(findings.to_json(all_findings))
    elif output == "yaml":
        click.echo(yaml.safe_dump(findings.to_document(all_findings), sort_keys=False), nl=False)
    else:
        for line in findings.to_lines(all_findings):
            click.echo(clean(line))  # findings have texts of the cluster
