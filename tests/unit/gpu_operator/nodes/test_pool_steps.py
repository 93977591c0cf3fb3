"""The order of the steps in a pass over a pool."""

import pytest

from gpu_operator.controllers.pools.pools import STEPS

ORDER = {
    "a pool is kept before anything is made for it": ("add_finalizer", "write_pods"),
    "what leaves is not held up by what is refused": ("release_gpus", "write_gpus"),
    "agents start while GPUs are written": ("write_pods", "write_gpus"),
    "nodes are looked at before they are labelled": ("write_pods", "unlabel_nodes"),
    "an agent lets its GPUs go before it is withdrawn": ("release_gpus", "withdraw_pods"),
    "a node is ready for GPUs that were written": ("write_gpus", "write_readiness"),
    "a status counts the nodes with problems": ("write_readiness", "write_status"),
    "a deleted pool's last status is written": ("write_status", "drop_finalizer"),
}


@pytest.mark.parametrize("reason", ORDER)
def test_steps_have_a_required_order(reason: str) -> None:
    """If two steps are exchanged, the property in the reason is lost."""
    names = [step.__name__ for step in STEPS]
    earlier, later = ORDER[reason]
    assert names.index(earlier) < names.index(later)


def test_the_finalizer_is_dropped_last_and_each_step_runs_once() -> None:
    """After the finalizer is dropped, no write for the pool is possible."""
    names = [step.__name__ for step in STEPS]
    assert len(set(names)) == len(names)
    assert names[-1] == "drop_finalizer"
