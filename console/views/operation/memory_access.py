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
        listed_verbs = [str(verb) for verb in listed] if isinstance(listed, list) else []
        removed = [verb for verb, bit in NAMES.items() if bit & CHANGES_MEMORY]
        lost_verbs = [verb for verb in removed if verb in listed_verbs]
        consequence = f"{', '.join(removed)}: no peer gets them by this rule"
        if lost_verbs:
            consequence = f"{', '.join(lost_verbs)}, which the rule lists: no peer gets them by it"
        where = f"policy {name} {Direction.INGRESS.value}[{number}]"
        yield f"{where}: memory.maxAccess ReadOnly removes {consequence}"


def removed_by(fabric: Fabric, names: Iterable[str]) -> tuple[str, ...]:
    """Return these sentences about policies of the cluster, each "namespace/name"."""
    named_policies = ((name, fabric.policies.get(name)) for name in names)
    return tuple(
        text
        for name, policy in named_policies
        if isinstance(policy, KnownPolicy)
        for text in describe_removed(name, policy.spec)
    )
