"""``kubectl tessera``: the verbs. Each lists what it needs, computes with a view, and prints."""

import contextlib
import datetime
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from console.kubectl import (
    fault_commands,
    fleet_text,
    inference_text,
    layout_text,
    output,
    rdma_text,
    rollout_text,
    support_commands,
    why_text,
)
from console.kubectl.access import Access, read_model, with_access
from console.model.fabric import Fabric
from console.model.inference import PAUSE_S
from console.views import layout_diff, manifest, needs, reach, rollout
from console.views.fleet import Filter
from console.views.operation import enforcement
from console.views.waiting import why
from console.views.waiting.survey import Survey
from drawing import terminal
from drawing.verdict import path_lines, path_of
from rdma.enforcement import write_lines
from rdma.explain import QuestionError
from rdma.kinds import POLICY_KIND
from rdma.verbs import NAMES

_FORM: Final = click.option("-o", "--output", "form", type=click.Choice(["json", "yaml", "wide"]))


class _Failed(click.ClickException):
    """An error of a command whose status 1 is a result."""

    exit_code = 2


class _ComparingCommand(click.Command):
    """A command whose status 1 is a result, so that every error has another status."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _failing():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _failing():
            return super().invoke(ctx)


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except click.ClickException as err:
        raise _Failed(err.format_message()) from err
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except Exception as err:
        traceback.print_exc()
        raise _Failed(f"{type(err).__name__}: {err}") from err


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@with_access
@click.version_option(package_name="tessera", prog_name="kubectl-tessera")
def command(access: Access) -> None:
    """Show a cluster's GPUs, slices, pending pods and RDMA policies.

    Nothing is written, except by `fault inject` and `fault clear`.
    """
    click.get_current_context().obj = access


command.add_command(support_commands.check_cluster)
command.add_command(support_commands.collect_bundle)
command.add_command(fault_commands.faults)


@command.command("map")
@click.argument("names", metavar="[NODE]...", nargs=-1)
@click.option("--pool", default="", help="GPUs of this pool only.")
@click.option("--board", default="", help="GPUs of this board only.")
@click.option("-l", "--selector", "labels", default="", help="Nodes with these labels only.")
@_FORM
@with_access
def show_map(
    access: Access, names: Sequence[str], pool: str, board: str, labels: str, form: str | None
) -> None:
    """Draw nodes, GPUs and slices at their positions; -n: GPUs with slices of its pods only."""
    model = read_model(access, needs.GPU, ("Node", "GPUPool", *needs.FAULTS))
    chosen = Filter(pool=pool, board=board, namespace=_filtered(access), labels=labels)
    fleet_text.write_map(fleet_text.choose(model, chosen, names), form or "")


@command.command("top")
@click.argument("names", metavar="[NODE]...", nargs=-1)
@click.option("--inference", is_flag=True, help="Requests and latencies of inference pods.")
@click.option(
    "--interval",
    "pause_s",
    type=click.FloatRange(PAUSE_S, 300),
    default=PAUSE_S,
    help="Seconds between the readings of --inference.",
)
@_FORM
@with_access
def show_top(
    access: Access, names: Sequence[str], inference: bool, pause_s: float, form: str | None
) -> None:
    """Print the memory that each slice uses, as the node agent reported it last.

    With --inference, print what pods with Prometheus metrics serve from their slices.
    """
    if inference:
        model = read_model(access, needs.INFERENCE, restricted=("Pod",))
        rows = inference_text.read_rows(access, model, names, pause_s)
        inference_text.write_rows(rows, form or "")
        return
    model = read_model(access, needs.GPU, ("Node", "GPUPool"))
    chosen = Filter(namespace=_filtered(access))
    fleet_text.write_top(fleet_text.choose(model, chosen, names), form or "")


@command.command("why")
@click.argument("pod", required=False)
@_FORM
@with_access
def explain_pod(access: Access, pod: str | None, form: str | None) -> None:
    """Explain why POD waits for a node; without POD, list the pods that wait for devices."""
    if pod is None:
        model = read_model(access, ("Pod",), needs.POLICY, restricted=("Pod",))
        pods = why.pending_pods(model.world(), model.pods.values())
        missing = model.connection.missing(needs.PENDING)
        why_text.write_pending(pods, form or "", missing, access.scope)
        return
    name = pod.removeprefix("pods/").removeprefix("pod/")
    if access.everywhere:
        raise click.UsageError("a pod cannot be retrieved by name across all namespaces")
    if "/" in name:
        raise click.UsageError(f"{pod!r} is no pod's name; -n chooses the namespace")
    model = read_model(
        access, needs.EXPLANATION, (*needs.POLICY, *needs.CLAIMS), restricted=("Pod",)
    )
    record, world = model.pods.get(f"{access.namespace}/{name}"), model.world()
    if record is None or not why.is_explicable(world, record):
        raise click.ClickException(
            f"pod {name!r} in namespace {access.namespace!r} does not exist, or does not wait for"
            " a node with a slice, a GPU or an HCA"
        )
    survey = Survey(world, model.taints())
    explanation = why.explain(survey, record, model.claims, model.classes, model.connection)
    why_text.write_explanation(explanation, form or "")


@command.group("layout")
def layout() -> None:
    """Compute what a MIGLayout would change, and how far a change is."""


@layout.command("diff", cls=_ComparingCommand)
@click.option("-f", "--filename", required=True, metavar="FILE", help="Manifest; - is stdin.")
@_FORM
@with_access
def show_diff(access: Access, filename: str, form: str | None) -> int:
    """Print what applying a MIGLayout would change. Nothing is applied.

    Exit status: 0 no slice changes, 1 slices change, 2 error.
    """
    text = _read_file(filename)
    try:
        document = manifest.read_layout(text)
        difference = layout_diff.diff(read_model(access, needs.LAYOUT).world(), document)
    except manifest.ManifestError as err:
        raise click.ClickException(f"{filename}: {err}") from err
    limits = layout_text.read_limits(access, difference)
    layout_text.write_diff(difference, limits, form or "")
    return int(layout_text.is_change(difference))


@layout.command("status")
@click.argument("name", required=False)
@_FORM
@with_access
def show_status(access: Access, name: str | None, form: str | None) -> None:
    """Print the progress of rollouts; with NAME or -o wide, the GPUs that are not done."""
    rollouts = rollout.find_rollouts(read_model(access, needs.LAYOUT).world())
    chosen = [
        layout_rollout for layout_rollout in rollouts if name in (None, layout_rollout.layout.name)
    ]
    if name is not None and not chosen:
        raise click.ClickException(f"MIGLayout {name!r} does not exist")
    moment = datetime.datetime.now(datetime.UTC)
    rollout_text.write_rollouts(chosen, form or "", moment)
    if name is not None and form is None:
        rollout_text.write_gpus(chosen, moment)


@command.group("rdma")
def rdma() -> None:
    """Evaluate the cluster's RDMA network policies."""


@rdma.command("explain", cls=_ComparingCommand)
@click.option("--from", "source", required=True, metavar="[NS/]POD", help="Pod that requests.")
@click.option("--to", "destination", required=True, metavar="[NS/]POD", help="Pod that receives.")
@click.option("--verb", required=True, type=click.Choice(list(NAMES), case_sensitive=False))
@_FORM
@with_access
def explain_flow(access: Access, source: str, destination: str, verb: str, form: str | None) -> int:
    """Explain whether a pod may use a verb on another, as `tessera rdma explain` does.

    Exit status: 0 allowed, 1 denied, 2 error.
    """
    a, b = (
        pod_name if "/" in pod_name else f"{access.namespace}/{pod_name}"
        for pod_name in (source, destination)
    )
    fabric = _read_fabric(access, {pod_name.partition("/")[0] for pod_name in (a, b)})
    try:
        explanation = reach.explain_verb(fabric, a, b, NAMES[verb])
    except QuestionError as err:
        raise click.ClickException(str(err)) from err
    states = enforcement.states_behind(fabric, explanation)
    if form in ("json", "yaml"):
        policies = [state.document() for state in states]
        output.write_document(explanation.document() | {"policies": policies}, form)
    else:
        output.write_lines(write_lines(explanation, states))
    if form == "wide":
        output.write_lines(path_lines(path_of(explanation), terminal.width()))
    return int(not explanation.allowed)


@rdma.command("matrix")
@click.option("--first", type=click.IntRange(1), default=1, help="Number of the first pod shown.")
@_FORM
@with_access
def show_matrix(access: Access, first: int, form: str | None) -> None:
    """Print which pods of the namespace may use which verbs on which others."""
    fabric = _read_fabric(access, {access.scope})
    matrix = reach.matrix(fabric, access.scope, first - 1)
    rdma_text.write_matrix(matrix, form or "", access.scope)


def _read_fabric(access: Access, namespaces: Collection[str]) -> Fabric:
    """Return the RDMA objects, unless policies of some of the namespaces are not known."""
    model = read_model(access, needs.RDMA)
    if POLICY_KIND in model.connection.limited and set(namespaces) != {access.namespace}:
        raise click.ClickException(
            f"nothing is evaluated: you may list {POLICY_KIND} in namespace {access.namespace} only"
        )
    fabric = model.fabric
    for key, policy in fabric.policies.items():
        if policy.problem:
            click.echo(f"warning: {key} cannot be read, and denies all: {policy.problem}", err=True)
    return fabric


def _filtered(access: Access) -> str:
    """Return the namespace that restricts objects without one: only that of -n."""
    return "" if access.everywhere else access.named


def _read_file(filename: str) -> str:
    """Return a manifest's text, of which one character too many is read. Raises ClickException."""
    try:
        if filename == "-":
            return sys.stdin.read(manifest.LONGEST + 1)
        with Path(filename).open(encoding="utf-8") as file:
            return file.read(manifest.LONGEST + 1)
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "not UTF-8"
        raise click.ClickException(f"{filename}: {reason}") from err
