"""GPUPolicy: ``default`` is in force, any other is ignored and told so."""

import datetime

from gpu_operator.api.v1alpha1 import API_VERSION
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicyStatus
from gpu_operator.controllers.conditions import Verdict, blocked, refused, report, verdicts
from gpu_operator.controllers.world import POLICY_NAME, Outcome, World
from gpu_operator.kube.actions import Action, Apply, Manager


def reconcile(world: World, name: str, now: datetime.datetime) -> Outcome:
    """Make ``default`` what the chart says, if the chart says anything; report on any policy."""
    policy = world.policies.get(name)
    actions: list[Action] = []
    wanted = world.chart_policy if name == POLICY_NAME else None
    if wanted is not None:
        document = {
            "apiVersion": API_VERSION,
            "kind": "GPUPolicy",
            "metadata": {"name": name, "ownerReferences": [dict(o) for o in wanted.owners]},
            "spec": wanted.spec.model_dump(mode="json", by_alias=True),
        }
        actions.append(Apply(Manager.POLICY, document))
    if policy is not None:
        if name == POLICY_NAME:
            verdict = verdicts(Verdict(True, Reason.RECONCILED, "in force"))
        else:
            verdict = refused(Reason.IGNORED, f"only the GPUPolicy called {POLICY_NAME} counts")
        verdict = blocked(verdict, world.refused_writes.get(("GPUPolicy", name), ""))
        actions += report(policy.meta, policy.status, GPUPolicyStatus(), verdict, now)
    return Outcome(tuple(actions))
