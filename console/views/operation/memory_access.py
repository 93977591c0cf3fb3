"""Which verbs ``memory.maxAccess: ReadOnly`` removes from the rules of an RDMA policy.

A rule can list these verbs nevertheless, without an effect: verdicts alone do not show why.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from console.model.fabric import Fabric, KnownPolicy
from rdma.operations import CHANGES_MEMORY
from rdma.tables import Direction
from rdma.verbs import NAMES


def describe_removed(name: str, spec: Any) -> Iterator[str]:
    """Yield a sentence for each rule of a policy from which ReadOnly removes verbs.

    The spec is as its author wrote it: parts that are invalid have no sentence.
    """
    rules = spec.get(Direction.INGRESS.value) if isinstance(spec, dict) else None
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        memory = rule.get("memory") if isinstance(rule, dict) else None
        if not isinstance(memory, dict) or memory.get("maxAccess") != "ReadOnly":
            continue
        listed = rule.get("verbs")
        given = [str(one) for one in listed] if isinstance(listed, list) else []
        removed = [verb for verb, bit in NAMES.items() if bit & CHANGES_MEMORY]
        wanted = [verb for verb in removed if verb in given]
        what = f"{', '.join(removed)}: no peer gets them by this rule"
        if wanted:
            what = f"{', '.join(wanted)}, which the rule lists: no peer gets them by it"
        where = f"policy {name} {Direction.INGRESS.value}[{number}]"
        yield f"{where}: memory.maxAccess ReadOnly removes {what}"


def removed_by(fabric: Fabric, names: Iterable[str]) -> tuple[str, ...]:
    """Return these sentences about policies of the cluster, each "namespace/name"."""
    known = ((name, fabric.policies.get(name)) for name in names)
    return tuple(
        text
        for name, policy in known
        if isinstance(policy, KnownPolicy)
        for text in describe_removed(name, policy.spec)
    )
