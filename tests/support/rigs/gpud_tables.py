"""All tables of gpud and netd: who fills each, its bound, and how long the loop works on it at once.

A table is an attribute of a class that holds a collection. ``tenant`` states whether programs of
one slice can make a table longer; ``bound`` is then the bound for one slice, or for one context.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("vgpu_sim/gpud", "vgpu_sim/system", "hca/daemon/netd")
_KINDS = {
    *("dict", "list", "set", "Counter", "defaultdict", "OrderedDict", "deque"),
    *("SimpleQueue", "Queue", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary"),
}
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)


@dataclass(frozen=True)
class Table:
    """A table: its name (module, class and attribute), its bound, and how the loop walks it."""

    name: str
    bound: str
    walk: str
    tenant: bool = True


_ONE = "one entry at a time"
_STEPS = "StepQueue: 32 steps in an iteration"
_SMALL = "at once: of the stated size"
_BY_NODE = "by the node agent or the administrator"

TABLES = (
    # Contexts of a slice.
    Table("index.ContextIndex._contexts", "64 per slice", _ONE),
    Table("index.ContextIndex._by_instance", "64 per slice", "at once: 64 contexts"),
    Table("index.ContextIndex._by_pid", "64 per slice", _ONE),
    Table("index.ContextIndex._owners", "64 owners per slice", "at once: 64 owners"),
    Table("index.Context.sandbox", "8 per context", _SMALL),
    Table("launching.Launcher._starting", "1 per slice, counts to 64", _ONE),
    Table("launching.Launcher._starting_of", "64 per slice", _ONE),
    Table("launching.Launcher._expecting", "1 per new holder", _ONE, tenant=False),
    Table("starts.Starts._served", "1 per slice, 1,024 in all", _SMALL),
    Table("starts.Starts._under_way", "1 per slice", _SMALL),
    Table("starts.Starts._waiting", "64 per slice", _ONE),
    Table("table.ContextTable._ended", "1 per slice", _ONE),
    Table("table.ContextTable._inherited", "1 per slice", _ONE),
    Table("table.ContextTable._tasks", "64 per slice", "at gpud's end only"),
    Table("table.ContextTable._turnstiles", "1 per slice", _ONE),
    Table("worker_channel.WorkerChannel._last_passed", "5 names per context", _ONE),
    Table("zygote.Zygote._waiting", "64 per slice", _ONE),
    Table("zygote.Zygote.sandbox", "6", _SMALL, tenant=False),
    Table("leftovers.Leftovers._resuming", "64 per slice", "at gpud's start only"),
    Table("leftovers.Leftovers._watches", "64 per slice", _ONE),
    # Shared memory.
    Table("shares.Share.holders", "64, or all contexts of a process with whole GPUs", _SMALL),
    Table("shares.Share.keys", "4,096 of a context", _STEPS),
    Table("shares.Shares._channels", "64 per slice", _ONE),
    Table("shares.Shares._processes", "64 per slice", _ONE),
    Table("shares.Shares._names", "64 per slice", _ONE),
    Table("shares.Shares._exported", "64 per slice, each counts to 4,096", _ONE),
    Table("shares.Shares._holds", "64 per slice, each counts to 4,096", _ONE),
    Table("shares.Shares._held", "16,384 + 64 x 64 entries per slice", _STEPS),
    Table("shares.Shares._entries", "1 per slice, counts to 16,384 + 64 x 64", _ONE),
    Table("shares.Shares._keys", "16,384 + 64 x 64 entries per slice", _STEPS),
    Table("shares.Shares._live", "16,384 + 64 x 64 entries per slice", _STEPS),
    # Memory.
    Table("budget.Budget._accounts", "64 per slice", _ONE),
    Table("budget.Budget._clients", "64 per slice", _ONE),
    Table("budget.Budget._parts", "1 per slice", "at once: the node's slices"),
    Table("budget.Budget._liens", "1 per slice", "at once: the node's slices"),
    Table("budget.Budget._open", "1 per slice", _ONE),
    Table("budget.Budget._slices", "1 per slice", _ONE),
    Table("budget.Budget._sharers", "64 per slice", _ONE),
    Table("budget.Budget._gpu_instances", "1 per slice", _ONE),
    Table("budget.Budget._used", "1 per slice", "at once: the node's slices"),
    Table("budget.Budget._retained", "1 per slice", "at once: the node's slices"),
    Table("budget.Budget._retained_by", "64 sharers per slice", _SMALL),
    # Connections.
    Table("admission.PodAdmission._requested_at", "32 unlisted pods per slice", _SMALL),
    Table("admission.PodAdmission._unlisted", "1 per slice, counts to 32", _ONE),
    Table("server.SliceServer._serving", "64, and 64 with unread replies", "at a slice's end only"),
    Table("server.SliceServer._silent", "64 per slice", _ONE),
    Table("foreign.ForeignSockets._jobs", "64, and one per reply", "on the slice's own thread"),
    Table("pacing.StepQueue._queues", "64 operations per slice", "32 steps in an iteration"),
    Table("fencing.Fencing._scheduled", "1 per slice", _ONE),
    Table("updates.GroupUpdates._locks", "1 per slice", _ONE),
    Table("updates.GroupUpdates._queued", "1 per slice", _ONE),
    Table("updates.GroupUpdates._tasks", "2 per slice", "at gpud's end only"),
    Table("caches.OwnerCaches._trimmed_at", "1 per namespace and slot", "on another thread"),
    # Reports.
    Table("events.EventBus._waiting", "1 event and what its subscribers emit", _ONE),
    Table("meter.Meter._last", "64 per slice", "one slice in an iteration"),
    Table("meter.Meter._rates", "64 per slice", "one slice in an iteration"),
    Table("records.Records._xids", "64 per GPU", "at once: 64 Xids per GPU"),
    # What programs cannot make longer.
    Table("admission.HolderTable._entitled", _BY_NODE, _ONE, tenant=False),
    Table("admission.HolderTable._holders", _BY_NODE, _ONE, tenant=False),
    Table("admission.HolderTable._last_of", _BY_NODE, _ONE, tenant=False),
    Table("daemon.Daemon._servers", _BY_NODE, _ONE, tenant=False),
    Table("daemon.Daemon._tasks", "1", _SMALL, tenant=False),
    Table("events.EventBus._subscribers", _BY_NODE, _SMALL, tenant=False),
    Table("exports.Exports._users", "3", _SMALL, tenant=False),
    Table(
        "host_memory.HostMemory._shared_before_bytes",
        "1 per control group above gpud",
        _SMALL,
        tenant=False,
    ),
    Table("node.Faults._active", "64 lasting faults", _SMALL, tenant=False),
    Table("node.Faults._health", "1 per GPU and instance", _SMALL, tenant=False),
    Table("node.Faults._injected", "1,024 ids", _ONE, tenant=False),
    Table("records.Records._volatile", "1 per GPU", _ONE, tenant=False),
    Table("sampler.Sampler._meters", "1 per slice", _SMALL, tenant=False),
    Table("sampler.Sampler._states", "1 per GPU", _SMALL, tenant=False),
    Table("sampler.Sampler._telemetry", "1 per GPU", _SMALL, tenant=False),
    Table("sampler.Sampler._uses", "1 per slice", _SMALL, tenant=False),
    Table("server.AdminServer._connections", _BY_NODE, _SMALL, tenant=False),
    Table("server.AdminServer._uids", "2", _SMALL, tenant=False),
    Table("server.ManagementServer._serving", _BY_NODE, _SMALL, tenant=False),
    Table("server.ManagementServer._uids", "2", _SMALL, tenant=False),
    Table("sharing.SharingTable._shared", _BY_NODE, _ONE, tenant=False),
    Table("v1.CgroupsV1._parents", "1 per controller", _SMALL, tenant=False),
)


def tables_in(root: Path) -> set[str]:
    """Return the names of all tables in the classes below ``root``."""
    return {
        f"{path.stem}.{name}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for name in _tables_of(node)
    }


def _tables_of(its: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(its):
        if isinstance(node, ast.AnnAssign):
            target, kinds = node.target, _names(node.annotation)
        elif isinstance(node, ast.Assign):
            target, kinds = node.targets[0], set()
        else:
            continue
        of_self = isinstance(target, ast.Attribute) and _names(target.value) == {"self"}
        of_class = isinstance(target, ast.Name) and node in its.body
        if (of_self or of_class) and (kinds & _KINDS or _is_collection(node.value)):
            name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            yield f"{its.name}.{name}"


def _is_collection(value: ast.expr | None) -> bool:
    called = isinstance(value, ast.Call) and _names(value.func) & _KINDS
    return isinstance(value, _DISPLAYS) or bool(called)


def _names(node: ast.expr) -> set[str]:
    """Return the outermost names of a type or of a call: "dict" of ``dict[str, list[int]]``."""
    match node:
        case ast.Subscript():
            return _names(node.value)
        case ast.Attribute():
            return {node.attr}
        case ast.Name():
            return {node.id}
        case ast.BinOp():
            return _names(node.left) | _names(node.right)
        case _:
            return set()
