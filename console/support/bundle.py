"""The files about a cluster in a support bundle."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from console.support import checks, events, pruning, rdma
from console.support.installation import OWN_KINDS, RDMA_KINDS, Installation, metadata, name_of
from diagnosis import findings
from diagnosis.redaction import Pseudonyms
from gpu_operator import errors
from gpu_operator.kube.port import Document
from rdma.kinds import NETWORK_KIND, POLICY_KIND

_LINES: Final = 2000  # of each container's log
_CHARACTERS: Final = 1 << 20  # of each log, counted from the end
_PODS: Final = 60  # whose logs are collected; those that are not ready come first
_AT_ONCE: Final = 8


class Logs(Protocol):
    """Reads the logs of containers."""

    async def read(
        self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False
    ) -> str:
        """Return the last lines of a log. Raises KubeError."""


async def collect(installation: Installation, logs: Logs) -> Mapping[str, str]:
    """Return the files by name, without secrets and without the names of foreign objects."""
    names = Pseudonyms(installation.namespace)
    names.add_namespaces(name_of(space) for space in installation.namespaces)
    for namespace, name in _tenants(installation):
        names.add_namespaces([namespace])
        names.add_names([name])
    names.add_namespaces(
        str(metadata(policy).get("namespace") or "")
        for policy in installation.rdma.get(POLICY_KIND, ())
    )
    names.add_namespaces(events.namespaces_of(installation.events))
    names.keep_addresses(_own_addresses(installation))
    documents: dict[str, Any] = {
        f"{_plural(kind)}.json": _pruned(installation, kind) for kind in (*OWN_KINDS, "Node")
    }
    policies = rdma.number_policies(installation.rdma.get(POLICY_KIND, ()), installation.namespace)
    documents |= _rdma_documents(installation, policies)
    documents["pods.json"] = [pruning.prune_pod(pod) for pod in installation.pods]
    workloads = ((installation.operator,) if installation.operator else ()) + tuple(
        installation.daemon_sets
    )
    documents["workloads.json"] = [pruning.prune_workload(workload) for workload in workloads]
    documents["doctor.json"] = findings.to_document(checks.check_all(installation))
    files: dict[str, str] = {}
    unread = {**installation.problems, **installation.unread}
    problems = [f"{kind}: {text}\n" for kind, text in unread.items()]
    if installation.absence:
        problems.append(f"no pods, workloads and logs: {installation.absence}\n")
    problems += await _read_logs(installation.pods, logs, files)
    files["errors.txt"] = "".join(problems) or "none\n"
    files = {name: _cut(text) for name, text in files.items()}
    texts = {f"cluster/{name}": names.clean(text) for name, text in files.items()}
    return texts | {
        f"cluster/{name}": json.dumps(names.clean_document(document), indent=2, default=str) + "\n"
        for name, document in documents.items()
    }


async def _read_logs(pods: Sequence[Document], logs: Logs, files: dict[str, str]) -> list[str]:
    """Add the logs of pods to ``files``; return the problems."""
    problems: list[str] = []
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(pod: Document, container: str, previous: bool) -> None:
        place = str(metadata(pod).get("namespace") or "")
        name = f"logs/{name_of(pod)}/{container}{'.previous' if previous else ''}.log"
        async with limit:
            try:
                files[name] = await logs.read(
                    place, name_of(pod), container, lines=_LINES, previous=previous
                )
            except errors.KubeError as err:
                problems.append(f"{name}: {err}\n")

    chosen = sorted(pods, key=_is_ready)[:_PODS]
    if len(pods) > len(chosen):
        problems.append(f"logs of {len(chosen)} of {len(pods)} pods\n")
    async with asyncio.TaskGroup() as group:
        for pod in chosen:
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                group.create_task(read(pod, status["name"], previous=False))
                if status.get("restartCount"):
                    group.create_task(read(pod, status["name"], previous=True))
    return sorted(problems)


def _cut(text: str) -> str:
    """Return the end of a long text, from the start of a line, so that redaction takes seconds."""
    if len(text) <= _CHARACTERS:
        return text
    _, _, tail = text[-_CHARACTERS:].partition("\n")  # a part of a line could be half a secret
    return f"[the beginning was removed]\n{tail}"


def _is_ready(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return all(status.get("ready") and not status.get("restartCount") for status in statuses)


def _rdma_documents(
    installation: Installation, policies: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """Return the RDMA objects, and the events about these and about Tessera's other objects."""
    of = {kind: installation.rdma.get(kind, []) for kind in RDMA_KINDS}
    pruned = {
        NETWORK_KIND: [rdma.prune_network(network) for network in of[NETWORK_KIND]],
        POLICY_KIND: [
            rdma.prune_policy(policy, policies[rdma.key_of(policy)]) for policy in of[POLICY_KIND]
        ],
        "RDMANodeTables": [rdma.prune_tables(table) for table in of["RDMANodeTables"]],
    }
    documents: dict[str, Any] = {f"{_plural(kind)}.json": pruned[kind] for kind in RDMA_KINDS}
    documents["events.json"] = {
        "events": events.prune_events(installation.events, policies, installation.namespace),
        "refusedPackets": events.count_denials(installation.events),
    }
    return documents


def _pruned(installation: Installation, kind: str) -> list[Document]:
    prune = pruning.prune_node if kind == "Node" else pruning.prune_own
    return [prune({"kind": kind, **document}) for document in installation.objects[kind]]


def _plural(kind: str) -> str:
    """Return the lowercase plural of a kind, as the API has it."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return name if name.endswith("s") else f"{name}s"


def _own_addresses(installation: Installation) -> Iterator[str]:
    """Yield the addresses of nodes and of Tessera's own pods."""
    for node in installation.objects["Node"]:
        for address in (node.get("status") or {}).get("addresses") or ():
            yield str(address.get("address") or "")
    for pod in installation.pods:
        status = pod.get("status") or {}
        yield from (str(pod_ip.get("ip") or "") for pod_ip in status.get("podIPs") or ())
        yield str(status.get("podIP") or "")


def _tenants(installation: Installation) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of every holder and claim that the GPUs' status names."""
    for gpu in installation.objects["GPU"]:
        yield from _holders(gpu.get("status") or {})


def _holders(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, content in value.items():
            if key in pruning.FOREIGN and not isinstance(content, str):
                for holder in content if isinstance(content, list) else [content]:
                    yield str(holder.get("namespace") or ""), str(holder.get("name") or "")
            else:
                yield from _holders(content)
    elif isinstance(value, list):
        for element in value:
            yield from _holders(element)
