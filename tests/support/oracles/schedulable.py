"""A scheduler's reasons against a pod on a node: resources, labels, taints, classes.

A small part of kube-scheduler and admission, enough to decide whether a manifest that was
written for NVIDIA's names fits a Tessera node. Pod templates are found in any kind of object:
wherever a mapping has containers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

CORPUS_PREFIX = "nvidia.com/"


@dataclass(frozen=True)
class Node:
    """The properties of a node that the scheduler uses."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    runtime_classes: frozenset[str] = field(default=frozenset({"nvidia"}))


def pod_specs(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every pod's specification in a manifest, at any depth."""
    if isinstance(document, dict):
        if isinstance(document.get("containers"), list):
            yield document
            return
        for value in document.values():
            yield from pod_specs(value)
    elif isinstance(document, list):
        for value in document:
            yield from pod_specs(value)


def device_names(document: Any) -> Iterator[str]:
    """Yield the devices' resource names anywhere in a manifest: limits, quotas, flavors."""
    for text in _strings(document):
        name = text.removeprefix("requests.").removeprefix("limits.")
        rest = name.removeprefix(CORPUS_PREFIX)
        # mig-1g.10gb.product is a label's name, mig-1g.10gb a resource's.
        is_label = rest.endswith((".product", ".memory", ".count", ".multiprocessors"))
        if (
            rest != name
            and (rest in {"gpu", "gpu.shared"} or rest.startswith("mig-"))
            and not is_label
        ):
            yield name


def _strings(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key)
            if key not in {"tolerations", "taints"}:
                yield from _strings(value)
    elif isinstance(document, list):
        for value in document:
            yield from _strings(value)


def requested_devices(spec: Mapping[str, Any]) -> Counter[str]:
    """Return the devices that a pod needs: the sum of its containers', or more for an init
    container.
    """
    running: Counter[str] = Counter()
    for container in spec["containers"]:
        running.update(_limits(container))
    for container in spec.get("initContainers", ()):
        for name, count in _limits(container).items():
            running[name] = max(running[name], count)
    return running


def _limits(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    found = {n: int(c) for n, c in limits.items() if n.startswith(CORPUS_PREFIX)}
    for name, count in requests.items():  # the API server's rule for extended resources
        if name.startswith(CORPUS_PREFIX) and found.get(name) != int(count):
            raise AssertionError(f"{name}: requests must equal limits")
    return found


def problems(spec: Mapping[str, Any], node: Node) -> list[str]:
    """Return the reasons why a pod does not fit an empty node; an empty list if it fits."""
    found = [
        f"Insufficient {name}: {count} of {node.allocatable.get(name, 0)}"
        for name, count in requested_devices(spec).items()
        if count > node.allocatable.get(name, 0)
    ]
    for name, value in spec.get("nodeSelector", {}).items():
        if node.labels.get(name) != value:
            found.append(f"nodeSelector {name}={value}: the node has {node.labels.get(name)}")
    rule = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = rule.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    if terms is not None and not any(_matches(term, node.labels) for term in terms):
        found.append(f"node affinity: no term matches, of {terms}")
    for taint in node.taints:
        if not any(_tolerates(one, taint) for one in spec.get("tolerations", ())):
            found.append(f"untolerated taint {taint}")
    if (name := spec.get("runtimeClassName")) and name not in node.runtime_classes:
        found.append(f"RuntimeClass {name} not found")
    return found


def _matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(_holds(one, labels.get(one["key"])) for one in term["matchExpressions"])


def _holds(expression: Mapping[str, Any], value: str | None) -> bool:
    values = expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
    raise AssertionError(f"no operator: {expression['operator']}")


def _tolerates(toleration: Mapping[str, str], taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, effect):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, key)
    return toleration.get("key") == key and toleration.get("value", "") == value
