"""Nodes with the label ``<prefix>/mig.config=NAME``, which NVIDIA's MIG manager uses, too.

A configuration becomes layouts, one for each group of the node's GPUs with the same instances; only
layouts change GPUs. Their conditions determine the label ``mig.config.state``: pending, then
success or failed. An invalid configuration changes nothing; an event on the node and its annotation
``gpu.tessera.dev/mig-config`` give the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from gpu_operator.api.v1alpha1 import MIG_CONFIG
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.config import MigManagerConfig
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.world import Node, Outcome, World
from gpu_operator.controllers.mig_config.plan import PlanError, make_groups
from gpu_operator.kube.actions import Action, Apply, Delete, Manager, Record
from gpu_operator.render import mig_config as render

PENDING, SUCCESS, FAILED = "pending", "success", "failed"
_LONGEST_MESSAGE = 1000


def reconcile(world: World, name: str, settings: MigManagerConfig) -> Outcome:
    """Create, update or delete the layouts that a node's ``mig.config`` label requests.

    The state of these layouts is reported on the node.
    """
    node = world.nodes.get(name)
    node_layouts = _layouts_of(world, name)
    config_name = _config_name(world, node, settings) if node is not None else ""
    if node is None or not config_name:
        gone = [Delete("MIGLayout", layout.name) for layout in node_layouts]
        quiet = node is None or MIG_CONFIG not in node.annotations
        return Outcome((*gone, *(() if quiet or node is None else [_clear_state(node)])))
    try:
        documents = _documents(world, node, config_name, settings)
    except PlanError as err:
        return Outcome(tuple(_write_state(world, node, config_name, settings, FAILED, str(err))))
    by_name = {layout.name: layout for layout in node_layouts}
    actions = [*_changes(world, by_name, documents)]
    state, why = (PENDING, "") if actions else _progress(list(by_name.values()))
    actions += _write_state(world, node, config_name, settings, state, why)
    return Outcome(tuple(actions))


def _config_name(world: World, node: Node, settings: MigManagerConfig) -> str:
    """Return the name of the node's MIG configuration.

    The name is empty if the node has no configuration, or is not in a pool.
    """
    if not settings.enabled or node.name not in membership.pools_by_node(world):
        return ""
    return node.labels.get(_label(world), "") or settings.default


def _label(world: World) -> str:
    return f"{world.policy.resource_prefix}/mig.config"


def _documents(
    world: World, node: Node, config_name: str, settings: MigManagerConfig
) -> Sequence[render.Document]:
    """Return the layouts for a node's configuration. Raises PlanError."""
    configs = world.mig_configs.get(settings.config_map)
    if configs is None:
        raise PlanError(f"there is no ConfigMap {settings.config_map} with the key 'config.yaml'")
    if configs.problem:
        raise PlanError(f"ConfigMap {settings.config_map}: {configs.problem}")
    pool = world.pools[membership.pools_by_node(world)[node.name]].spec
    groups = make_groups(configs.named, config_name, pool.board, pool.count, settings.config_map)
    documents = [
        render.layout(node, number, group, settings) for number, group in enumerate(groups)
    ]
    ours = {layout.name for layout in _layouts_of(world, node.name)}
    for document in documents:
        name = document["metadata"]["name"]
        if name not in ours and (name in world.layouts or ("MIGLayout", name) in world.broken):
            raise PlanError(f"MIGLayout {name} exists and was not made for this node: delete it")
    return documents


def _layouts_of(world: World, node: str) -> Sequence[Layout]:
    """Return the layouts that were made for a node's label, by name."""
    if world.index is not None:
        layouts_by_name = world.index.layouts_by_label.get(node, {})
        return [layouts_by_name[name] for name in sorted(layouts_by_name)]
    return _by_node(world).get(node, ())


@lru_cache(maxsize=2)
def _by_node(world: World) -> Mapping[str, Sequence[Layout]]:
    layouts_by_node: dict[str, list[Layout]] = {}
    for name in sorted(world.layouts):
        layout = world.layouts[name]
        node = render.node_of(layout)
        if node:
            layouts_by_node.setdefault(node, []).append(layout)
    return layouts_by_node


def _changes(
    world: World, layouts_by_name: Mapping[str, Layout], documents: Sequence[render.Document]
) -> Iterator[Action]:
    """Yield the writes that turn the layouts in ``layouts_by_name`` into ``documents``.

    New or wider layouts come first, because every GPU must follow a layout at any time.
    """
    names = {document["metadata"]["name"] for document in documents}
    stale = [
        d for d in documents if not render.matches(layouts_by_name.get(d["metadata"]["name"]), d)
    ]
    for document in sorted(
        stale, key=lambda d: _narrows(layouts_by_name.get(d["metadata"]["name"]), d)
    ):
        yield Apply(Manager.MIG_CONFIG, document)
    for name in layouts_by_name:
        if name not in names:
            yield Delete("MIGLayout", name)


def _narrows(layout: Layout | None, document: render.Document) -> bool:
    if layout is None:
        return False
    indices = document["spec"]["selector"]["indices"]
    return not set(layout.spec.selector.indices) <= set(indices)


def _progress(layouts: Sequence[Layout]) -> tuple[str, str]:
    """Return the combined state of up-to-date layouts, and the reason for a failure."""
    states = [_state(layout) for layout in layouts]
    failed = [why for state, why in states if state == FAILED]
    if failed:
        return FAILED, "; ".join(failed)
    is_done = all(state == SUCCESS for state, _ in states)
    return (SUCCESS if is_done else PENDING), ""


def _state(layout: Layout) -> tuple[str, str]:
    conditions = {
        c.type: c
        for c in layout.status.conditions
        if c.observed_generation == layout.meta.generation
    }
    accepted = conditions.get(ConditionType.ACCEPTED.value)
    if accepted is not None and accepted.status == "False":
        return FAILED, f"{accepted.reason}: {accepted.message}"
    degraded = conditions.get(ConditionType.DEGRADED.value)
    if degraded is not None and degraded.status == "True":
        return FAILED, f"{degraded.reason}: {degraded.message}"
    ready = conditions.get(ConditionType.READY.value)
    return (SUCCESS if ready is not None and ready.status == "True" else PENDING), ""


def _write_state(
    world: World, node: Node, config_name: str, settings: MigManagerConfig, state: str, why: str
) -> Iterator[Action]:
    """Yield the write of the node's state if it changed.

    Yield an event, too, when the state is final or its reason changed.
    """
    label = _label(world)
    note = f"{config_name}: {state}" + (f": {why}" if why else "")[:_LONGEST_MESSAGE]
    labels = {f"{label}.state": state}
    if settings.default and node.labels.get(label) in (None, settings.default):
        labels[label] = settings.default  # the GPU operator labels such nodes in the same way
    noted = node.annotations.get(MIG_CONFIG)
    if noted != note or not labels.items() <= node.labels.items():
        yield Apply(Manager.MIG_CONFIG, render.node_state(node, labels, {MIG_CONFIG: note}))
    if noted != note and state != PENDING:
        failed = state == FAILED
        yield Record(
            kind="Node",
            name=node.name,
            uid=node.uid,
            reason=(Reason.MIG_CONFIG_FAILED if failed else Reason.MIG_CONFIG_APPLIED).value,
            message=f"{label}={note}",
            warning=failed,
        )


def _clear_state(node: Node) -> Apply:
    """Return the write that removes the state of the MIG configuration from a node."""
    return Apply(Manager.MIG_CONFIG, render.node_state(node, {}, {}))
