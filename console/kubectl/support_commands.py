"""``kubectl tessera doctor`` and ``kubectl tessera bundle``."""

import asyncio
from pathlib import Path
from typing import Final

import click

from console.kubectl import output
from console.kubectl.access import Access, with_operator_access
from console.support import entry
from diagnosis import archive, findings
from gpu_operator import errors

README: Final = f"""\
Collected by `kubectl tessera bundle`. Read the files before you share them. Below cluster/:

doctor.json          findings of `kubectl tessera doctor`
gpupools.json, gpus.json, miglayouts.json, gpupolicies.json, gpufaults.json, nodes.json
rdmanetworks.json, rdmanetworkpolicies.json, rdmanodetables.json
events.json          events about these objects, and how many RDMA operations were denied
pods.json            Tessera's own pods
workloads.json       the operator's Deployment and the DaemonSets of pools
logs/POD/CONTAINER   logs of these pods; .previous is the run before the last restart
errors.txt           what could not be read, and why

Of RDMA policies of other namespaces the bundle has the shape of their rules and their state under a
number, and of selectors only how many labels they require: if an issue concerns one, add
`kubectl describe` of it.

{archive.LEFT_OUT}"""


@click.command("doctor")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]))
@with_operator_access
def check_cluster(access: Access, form: str | None) -> int:
    """Check Tessera's installation on the cluster, and print what to change.

    Exit status: 0 everything works, with or without warnings; 1 something does not, or an error.
    """
    try:
        cluster_findings = asyncio.run(
            entry.check_cluster(access.kubeconfig, access.context, access.named)
        )
    except errors.ConfigError as err:
        raise click.ClickException(str(err)) from err
    if form:
        output.write_document(findings.to_document(cluster_findings), form)
    else:
        output.write_lines(findings.to_lines(cluster_findings))
    return int(findings.has_failure(cluster_findings))


@click.command("bundle")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Archive to write; default: tessera-support-TIME.tar.gz in the current directory.",
)
@with_operator_access
def collect_bundle(access: Access, path: Path | None) -> None:
    """Write an archive with Tessera's objects and logs, without secrets or other namespaces."""
    folder = archive.name_now()
    target = path or Path(f"{folder}.tar.gz")
    try:
        files = asyncio.run(entry.collect_cluster(access.kubeconfig, access.context, access.named))
        size = archive.write(target, folder, {"README.txt": README, **files})
    except errors.ConfigError as err:
        raise click.ClickException(str(err)) from err
    except OSError as err:
        raise click.ClickException(f"{target}: {err.strerror or err}") from err
    click.echo(f"{target}: {len(files) + 1} files, {size} bytes; read it before you share it")
