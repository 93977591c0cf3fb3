"""Which cluster and namespace a command reads, and the list of what it needs."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from console.model.cluster import ClusterModel
from console.model.watches import NAMESPACED, Watches
from gpu_operator import errors
from gpu_operator.kube import connection
from gpu_operator.kube.client import KubernetesCluster

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Access:
    """The values of kubectl's options; None or empty where one is absent."""

    kubeconfig: Path | None = None
    context: str | None = None
    named: str = ""
    everywhere: bool = False

    @property
    def namespace(self) -> str:
        """Return the namespace of -n, or else of the context. Raises ClickException."""
        try:
            return self.named or connection.kubeconfig_namespace(self.kubeconfig, self.context)
        except errors.ConfigError as err:
            raise click.ClickException(str(err)) from err

    @property
    def scope(self) -> str:
        """Return the namespace to which a list is restricted; empty with -A."""
        return "" if self.everywhere else self.namespace


_NAMESPACE: Final = "Namespace; default: the context's."


def with_access(
    function: Callable[..., Any], namespace_help: str = _NAMESPACE, *, everywhere: bool = True
) -> Callable[..., Any]:
    """Add kubectl's options to a command, which receives them as ``access``.

    ``everywhere`` adds -A, for commands that consider objects of namespaces.
    """

    @functools.wraps(function)
    def call(
        *args: Any,
        kubeconfig: Path | None,
        context: str | None,
        namespace: str,
        all_namespaces: bool = False,
        **options: Any,
    ) -> Any:
        above = click.get_current_context().find_object(Access) or Access()
        access = Access(
            kubeconfig or above.kubeconfig,
            context or above.context,
            namespace or above.named,
            all_namespaces or above.everywhere,
        )
        return function(*args, access=access, **options)

    file = click.Path(dir_okay=False, path_type=Path)
    every = click.option("-A", "--all-namespaces", is_flag=True, help="Consider all namespaces.")
    for option in (
        *((every,) if everywhere else ()),
        click.option("-n", "--namespace", default="", help=namespace_help),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
        click.option("--kubeconfig", type=file, help="File to use; default: as kubectl chooses."),
    ):
        call = option(call)
    return call


def with_operator_access(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add kubectl's options to a command for which the namespace is that of the operator."""
    text = "Namespace of the operator; default: searched in all namespaces."
    return with_access(function, text, everywhere=False)


def read_model(
    access: Access,
    required: Collection[str],
    useful: Collection[str] = (),
    restricted: Collection[str] = (),
) -> ClusterModel:
    """List kinds of objects once, and return the model of them.

    Kinds in ``restricted`` are listed in the scope only. Other namespaced kinds are listed in the
    namespace only if the user may not list them everywhere, which a warning reports.

    Raises:
        click.ClickException: a kind in ``required`` cannot be listed.
    """
    kinds = (*required, *useful)
    model, problems, limited = run_connected(
        access, lambda cluster: _read(cluster, access, kinds, restricted)
    )
    for kind, problem in problems.items():
        if kind in required:
            raise click.ClickException(problem)
        click.echo(f"warning: {problem}", err=True)
    model.connection.limited.update(limited)
    for kind in limited:
        text = f"{kind}: only of namespace {access.namespace}: you may not list others"
        click.echo(f"warning: {text}", err=True)
    return model


@contextlib.asynccontextmanager
async def connect(access: Access) -> AsyncIterator[KubernetesCluster]:
    """Connect to the cluster's API server. Raises ConfigError."""
    async with connection.open_kubeconfig(access.kubeconfig, access.context) as client:
        yield KubernetesCluster(client)


def run_connected(
    access: Access, use: Callable[[KubernetesCluster], Coroutine[Any, Any, _Result]]
) -> _Result:
    """Run ``use`` with a connection to the cluster's API server, and return its result.

    Raises:
        click.ClickException: the kubeconfig names no cluster.
    """

    async def run() -> _Result:
        async with connect(access) as cluster:
            return await use(cluster)

    try:
        return asyncio.run(run())
    except errors.ConfigError as err:
        raise click.ClickException(str(err)) from err


async def _read(
    source: KubernetesCluster, access: Access, kinds: Collection[str], restricted: Collection[str]
) -> tuple[ClusterModel, dict[str, str], list[str]]:
    """Return the model, the kinds that cannot be listed with the reason, and what is limited."""
    model = ClusterModel()
    everywhere, scoped = Watches(source, model), Watches(source, model, access.scope)
    lists = await asyncio.gather(
        everywhere.list_once(kind for kind in kinds if kind not in restricted),
        scoped.list_once(restricted),
    )
    list_errors = lists[0] | lists[1]
    refused = [
        kind
        for kind, err in list_errors.items()
        if isinstance(err, errors.Refused) and kind in NAMESPACED and kind not in restricted
    ]
    if refused:  # perhaps the user may list them in one namespace
        still = await Watches(source, model, access.namespace).list_once(refused)
        list_errors = {k: err for k, err in list_errors.items() if k not in refused or k in still}
    problems = {kind: str(err) for kind, err in list_errors.items()}
    return model, problems, [kind for kind in refused if kind not in problems]
