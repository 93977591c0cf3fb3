"""``tessera rdma``: evaluate RDMA network policies, and check that manifests are enforceable.

The exit status is 0 for allowed or valid, 1 for denied or invalid, and 2 if the arguments or the
input cannot be read.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from drawing import terminal
from drawing.documents import Figure
from drawing.verdict import draw_path, path_lines, path_of
from rdma.compiling.compiler import Compiler
from rdma.enforcement import Enforcement, deciding_policies, read_state, write_lines
from rdma.errors import PolicyError, RdmaError
from rdma.explain import Explanation, Question, QuestionError, explain as explain_flow
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading import manifests as objects
from rdma.verbs import NAMES, Verb
from vgpu_sim.cli import manifests, pictures
from vgpu_sim.cli.errors import FAILED, INVALID, fail
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.cli.manifests import Document

_VERBS = {name.lower(): verb for name, verb in NAMES.items()}
_Value = TypeVar("_Value")
_OURS = (NETWORK_KIND, POLICY_KIND)


def _verb(_ctx: click.Context, _param: click.Parameter, value: str) -> Verb:
    """Parse a verb in any spelling: write, Write, write-imm."""
    verb = _VERBS.get(value.lower().replace("-", ""))
    if verb is None:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(NAMES)}")
    return verb


def _complete_verb(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _VERBS if name.startswith(incomplete.lower())]


def _pkey(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        number = int(value, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= 0xFFFF:
        raise click.BadParameter(f"{value!r} is not a P_Key: 0x0000 to 0xffff")
    return number


_files = click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests: a file, a folder, or - for standard input; may be repeated.",
    type=click.Path(),
)


@click.group(cls=VerbGroup)
def command() -> None:
    """Evaluate RDMA network policies for a pair of pods, and check manifests."""


@command.command()
@click.option(
    "--from", "source", required=True, metavar="NS/POD", help="Pod that sends the request."
)
@click.option(
    "--to",
    "destination",
    required=True,
    metavar="NS/POD",
    help="Pod that receives the request; or an address.",
)
@click.option(
    "--verb",
    required=True,
    metavar="VERB",
    callback=_verb,
    shell_complete=_complete_verb,
    help=f"One of {', '.join(NAMES)}.",
)
@_files
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="Namespace of pods named without one.",
)
@click.option(
    "--pkey",
    metavar="P_KEY",
    callback=_pkey,
    help="P_Key of the queue pair, such as 0xffff; default: one that both ends share.",
)
@click.option("--service", type=click.IntRange(1, 0xFFFF), help="Port of the connection manager.")
@click.option("--space", type=click.Choice(["TCP", "UDP"]), help="Port space; default: TCP.")
@click.option("--qpn", type=click.IntRange(0, 0xFFFFFF), help="Destination's queue pair number.")
@click.option(
    "--traffic-class", type=click.IntRange(0, 255), default=0, help="Traffic class of the packets."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option(
    "--kubectl",
    "kubectl",
    default="kubectl",
    show_default=True,
    metavar="PROGRAM",
    help="Program that reads the cluster's objects where -f is absent.",
)
@click.option("--context", help="kubectl's context; default: its current one.")
@pictures.with_pictures
def explain(
    source: str,
    destination: str,
    verb: Verb,
    files: Sequence[str],
    namespace: str,
    pkey: int | None,
    service: int | None,
    space: str | None,
    qpn: int | None,
    traffic_class: int,
    output: str,
    kubectl: str,
    context: str | None,
) -> None:
    """Explain whether a pod may perform an operation on another: which policy, rule and side
    decide.

    Pods, namespaces, networks and policies are read from manifests, as `kubectl get -o yaml`
    prints them, or from the cluster through your own kubectl. The exit status is 0 for allowed,
    1 for denied, 2 if the arguments or the input cannot be evaluated.
    """
    if space is not None and service is None:
        raise click.UsageError("--space needs --service")
    question = Question(
        _full_name(source, namespace),
        _full_name(destination, namespace),
        verb,
        pkey,
        service,
        space or ("TCP" if service is not None else None),
        qpn,
        traffic_class,
    )
    try:
        documents = manifests.read(files) if files else manifests.read_cluster(kubectl, context)
        pods, compiler = _compile(documents, in_force=not files)
        answer = explain_flow(compiler, pods, question)
    except (RdmaError, click.ClickException) as error:
        if isinstance(error, click.UsageError):
            raise
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        if isinstance(error, QuestionError):
            message += f" ({_where(files, kubectl)})"
        fail(message, INVALID)
    for (kind, key), errors in compiler.problems().items():
        for problem in errors:
            click.echo(f"warning: {kind} {key}: {problem}", err=True)
    states = _states(documents, answer, in_force=not files)
    lines = list(write_lines(answer, states))
    path = path_of(answer)
    title = f"{answer.verb} from {answer.source} to {answer.destination}"
    pictures.write_files(title, lambda: [Figure(title, draw_path(path))], lines)
    if output == "json" and not pictures.current().takes_stdout:
        policies = [enforcement.document() for enforcement in states]
        click.echo(json.dumps(answer.document() | {"policies": policies}, indent=2))
    elif not pictures.current().takes_stdout:
        click.echo("\n".join(lines))
        if pictures.current().wants_text:
            pictures.print_lines(path_lines(path, terminal.width()))
    sys.exit(0 if answer.allowed else FAILED)


@command.command()
@_files
def check(files: Sequence[str]) -> None:
    """Check the RDMANetworks and RDMANetworkPolicies in manifests, without a cluster.

    For each object the errors and their fields are printed. The exit status is 0 when all are
    valid, 1 when one is invalid, 2 when a file cannot be read or contains no such object.
    """
    if not files:
        raise click.UsageError("Missing option '-f': which manifests?")
    try:
        documents = [document for document in manifests.read(files) if document.kind in _OURS]
    except click.ClickException as error:
        fail(error.format_message(), INVALID)
    if not documents:
        fail(f"no {' and no '.join(_OURS)} in these files", INVALID)
    compiler = Compiler()
    named: dict[tuple[str, str], str] = {}
    problems: dict[tuple[str, str], list[str]] = {}
    for document in documents:
        try:
            key = _put(compiler, document)
        except PolicyError as error:
            key = (document.kind, document.source)
            problem = str(error).removeprefix(f"{document.source}: ")
            problems.setdefault(key, []).append(problem)
        if key in named:
            problems.setdefault(key, []).append(f"is also in {named[key]}")
        named[key] = document.source
    for key, errors in compiler.problems().items():
        problems.setdefault(key, []).extend(map(str, errors))
    for key in named:
        for problem in problems.get(key, ["valid"]):
            click.echo(f"{key[0]} {key[1]}: {problem}")
    sys.exit(FAILED if problems else 0)


def _states(
    documents: Sequence[Document], answer: Explanation, *, in_force: bool
) -> tuple[Enforcement, ...]:
    """Return whether nodes enforce the policies behind an answer.

    Of a manifest without a status, which was never applied, nothing is stated.
    """
    states = {}
    for document in documents:
        metadata = document.content.get("metadata")
        counts = document.kind == POLICY_KIND and (in_force or document.content.get("status"))
        if counts and isinstance(metadata, dict):
            key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
            states[key] = read_state(key, document.content)
    return tuple(states[name] for name in deciding_policies((answer,)) if name in states)


def _full_name(name: str, namespace: str) -> str:
    """Return "namespace/name" for a pod's name; an address is returned unchanged."""
    is_address = ":" in name or name.replace(".", "").isdigit()
    return name if "/" in name or is_address else f"{namespace}/{name}"


def _where(files: Sequence[str], kubectl: str) -> str:
    """Describe where pods were searched for. In manifests that were never applied, pods lack
    addresses.
    """
    if not files:
        return f"read from: {kubectl}"
    return f"read: {', '.join(files)}; `kubectl get pods -A -o yaml` prints pods with addresses"


def _compile(documents: Sequence[Document], *, in_force: bool) -> tuple[list[PodFacts], Compiler]:
    """Return the pods, and a compiler that contains all objects. Unknown kinds are ignored. Raises
    RdmaError.

    With ``in_force`` the objects come from a cluster. An unreadable one is then reported, and
    treated as the operator treats it: one tenant's mistake must not prevent an answer about
    other pods.
    """
    compiler = Compiler()
    pods = _all(documents, "Pod", objects.pod, in_force)
    for pod in pods:
        compiler.upsert_pod(pod)
    spaces = _all(documents, "Namespace", objects.namespace, in_force)
    known_names = {space.name for space in spaces}
    unknown = {pod.namespace for pod in pods} - known_names
    for name in () if in_force else sorted(unknown):
        message = f"no namespace {name} is given: assuming that it has no labels"
        click.echo(f"warning: {message}", err=True)
        spaces.append(NamespaceFacts(name))
    for space in spaces:
        compiler.upsert_namespace(space)
    for document in documents:
        if document.kind in _OURS:
            try:
                _put(compiler, document)
            except PolicyError as error:
                if not in_force:
                    raise
                click.echo(f"warning: unreadable, denies all: {error}", err=True)
                _put_closed(compiler, document)
    return pods, compiler


def _all(
    documents: Sequence[Document], kind: str, reader: Callable[[object], _Value], in_force: bool
) -> list[_Value]:
    """Parse all objects of a kind. Raises PolicyError unless ``in_force``."""
    read = []
    for document in documents:
        if document.kind == kind:
            try:
                read.append(_read(document, reader, ""))
            except PolicyError as error:
                if not in_force:
                    raise
                click.echo(f"warning: ignored: {error}", err=True)
    return read


def _put_closed(compiler: Compiler, document: Document) -> None:
    """Add the replacement for an unreadable object of a cluster, as the operator does."""
    metadata, spec = document.content.get("metadata"), document.content.get("spec")
    metadata_fields = metadata if isinstance(metadata, dict) else {}
    name = str(metadata_fields.get("name"))
    if document.kind == POLICY_KIND:
        created = str(metadata_fields.get("creationTimestamp") or "")
        closed = objects.closed_policy(str(metadata_fields.get("namespace")), name, spec, created)
        compiler.upsert_policy(closed)
        return
    status = document.content.get("status")
    # otherwise the object was never in force
    if isinstance(status, dict) and status.get("partitions"):
        compiler.upsert_network(objects.closed_network(name, spec))


def _put(compiler: Compiler, document: Document) -> tuple[str, str]:
    """Add a network or policy to a compiler; return its kind and key. Raises PolicyError."""
    if document.kind == NETWORK_KIND:
        network: Network = _read(document, objects.network, objects.GROUP)
        compiler.upsert_network(network)
        return document.kind, network.name
    policy: Policy = _read(document, objects.policy, objects.GROUP)
    compiler.upsert_policy(policy)
    return document.kind, policy.key


def _read(document: Document, reader: Callable[[object], _Value], group: str) -> _Value:
    try:
        if document.group != group:
            api_version = document.content.get("apiVersion", "missing")
            expected_version = f"{group}/v1alpha1" if group else "v1"
            raise PolicyError(
                "apiVersion", f"{str(api_version)[:80]!r}", f"write {expected_version}"
            )
        return reader(document.content)
    except PolicyError as error:
        raise PolicyError(
            f"{document.source}: {error.field}", error.problem, error.remedy
        ) from error
