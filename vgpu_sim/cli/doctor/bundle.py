"""``tessera support-bundle`` collects what an issue needs, without secrets or other tenants."""

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from diagnosis import archive, findings
from diagnosis.redaction import Pseudonyms, redact
from drawing.terminal import clean
from facts.wording import count_of
from vgpu_sim import config
from vgpu_sim.cli import progress
from vgpu_sim.cli.doctor import cluster, host, node

_PREFIXES: Final = ("TESSERA_", "CUDA_", "NVIDIA_", "LD_", "TRITON_", "TORCH", "PYTHON")
_README: Final = f"""\
Collected by `tessera support-bundle`. Read the files before you share them.

host/versions.txt   versions of Tessera, Python, the kernel and packages
host/variables.txt  names of environment variables that concern Tessera; no values
host/doctor.json    findings of `tessera doctor` about this machine
cluster/            objects and logs of Tessera's own pods, if a cluster was reachable

{archive.LEFT_OUT}"""


@click.command("support-bundle")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Archive to write; default: tessera-support-TIME.tar.gz in the current directory.",
)
@click.option("--no-cluster", is_flag=True, help="Do not connect to a cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the operator.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to use; default: as kubectl chooses.",
)
def command(
    path: Path | None,
    no_cluster: bool,
    context: str | None,
    namespace: str,
    kubeconfig: Path | None,
) -> None:
    """Write an archive with what an issue about Tessera needs.

    Secrets, values of environment variables, and names of other namespaces are left out.
    """
    folder = archive.name_now()
    target = path or Path(f"{folder}.tar.gz")
    with progress.track("support-bundle", 2 if no_cluster else 3) as steps:
        steps.begin("this machine")
        files = {"README.txt": _README, **collect_host()}
        steps.advance()
        collected: Mapping[str, str] = {}
        if not no_cluster:
            steps.begin("the cluster")
            collected = cluster.collect(kubeconfig, context, namespace)
            steps.advance()
        files.update(collected)
        steps.begin("the archive")
        try:
            size = archive.write(target, folder, files)
        except OSError as err:
            raise click.ClickException(f"{target}: {err.strerror or err}") from err
        steps.advance()
    click.echo(
        f"{target}: {count_of(len(files), 'file')}, {size} bytes; read it before you share it"
    )
    if set(collected) == {"cluster/errors.txt"}:
        problem = clean(collected["cluster/errors.txt"].strip())
        click.echo(f"the cluster's files are missing: {problem}", err=True)


def collect_host() -> dict[str, str]:
    """Return the files about this machine."""
    host_findings = host.check_all()
    if node.is_node():
        host_findings += node.check_all()
    files = {
        "host/versions.txt": "".join(f"{line}\n" for line in _versions()),
        "host/variables.txt": "".join(f"{name}\n" for name in _variables(config.own_environment())),
    }
    texts = {name: redact(text) for name, text in files.items()}
    document = Pseudonyms("").clean_document(findings.to_document(host_findings))
    texts["host/doctor.json"] = json.dumps(document, indent=2) + "\n"
    return {name: _without_home(text) for name, text in texts.items()}


def _versions() -> Iterable[str]:
    yield f"Python {sys.version}"
    yield f"{platform.system()} {platform.release()} {platform.version()} {platform.machine()}"
    yield f"C library {' '.join(platform.libc_ver())}"
    for distribution in sorted(
        importlib.metadata.distributions(), key=lambda distribution: distribution.name.lower()
    ):
        yield f"{distribution.name} {distribution.version}"


def _variables(environment: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environment if name.startswith(_PREFIXES))


def _without_home(text: str) -> str:
    try:
        home = str(Path.home())
    except RuntimeError:  # a uid without a home
        return text
    return text.replace(home, "~") if len(home) > 1 else text
