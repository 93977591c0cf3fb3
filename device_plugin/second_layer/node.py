"""The second layer of a node: applies the tables that were sent to the links that exist."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import pod_links
from device_plugin.second_layer.kernel import State
from device_plugin.second_layer.tunnels import find_overlays
from rdma.forward_guard import Overlays
from rdma.second_layer import JOINED, LINK_REASONS, TOTALS, Interface, link_counter
from rdma.tables import NodeTables
from vgpu_sim.records import dataclass

PATIENCE_S: Final = 5.0
"""How long a pod in the tables may have no link before ``state`` reports it, in seconds."""
_NAMED: Final = 5
_log = logging.getLogger("tessera.linkd")


class Namespace(Protocol):
    """The part of ``kernel.Namespace`` that ``Node`` uses."""

    def state(self) -> State:
        """Return the current links and routes. Raises SecondLayerError."""


class Loader(Protocol):
    """The part of ``links.Links`` that ``Node`` uses."""

    def apply(
        self,
        tables: NodeTables,
        interfaces: tuple[Interface, ...],
        others: tuple[str, ...],
        overlays: Overlays,
    ) -> None:
        """Load the rules of these tables for the links. Raises SecondLayerError."""

    def drops(self) -> Mapping[str, int]:
        """Return the counts of dropped packets, by counter. Raises SecondLayerError."""

    def remove(self) -> None:
        """Remove all rules and classifiers. Raises SecondLayerError."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    generation: int
    interfaces: tuple[Interface, ...]
    others: tuple[str, ...]
    overlays: Overlays


class Node:
    """Keeps the second layer in step with the node's tables and links. Used by one thread."""

    def __init__(
        self,
        namespace: Namespace,
        loader: Loader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespace = namespace
        self._loader = loader
        self._clock = clock
        self._tables: NodeTables | None = None
        self._loaded: _Loaded | None = None
        self._bound: pod_links.Bound = {}
        self._missing: dict[str, tuple[float, str]] = {}
        self._trouble = ""

    @property
    def generation(self) -> int | None:
        """Return the generation of the loaded tables; None if no rules are loaded."""
        return self._loaded.generation if self._loaded is not None else None

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to do until the tables or the links change."""
        return self._tables is None or not (self._trouble or self._missing)

    def set_tables(self, tables: NodeTables) -> None:
        """Replace the tables, and load their rules for the current links.

        Raises:
            SecondLayerError: the rules could not be loaded; the previous rules remain.
        """
        self._tables = tables
        self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Read the links, and load the rules again if the tables or the links have changed.

        If the tables name no pod with an HCA on any node, all rules are removed, because none
        are needed.

        Raises:
            SecondLayerError: the rules could not be loaded; the previous rules remain.
        """
        tables = self._tables
        if tables is None:
            return
        try:
            self._follow(tables)
        except (SecondLayerError, ValueError) as err:
            if str(err) != self._trouble:
                _log.warning("not loaded: %s", err)
            self._trouble = str(err)
            raise SecondLayerError(str(err)) from err
        self._trouble = ""

    def _follow(self, tables: NodeTables) -> None:
        found_links, overlays = pod_links.Found(), Overlays()
        if tables.endpoints:
            state = self._namespace.state()
            found_links = pod_links.find(tables, state, self._bound)
            overlays = find_overlays(state.links, state.fou_ports)
        now_s = self._clock()
        for pod in self._missing.keys() - found_links.missing.keys():
            del self._missing[pod]
        for pod, why in found_links.missing.items():
            since, _ = self._missing.get(pod, (now_s, ""))
            self._missing[pod] = since, why
        required_rules = _Loaded(
            tables.generation, found_links.interfaces, found_links.others, overlays
        )
        if required_rules == self._loaded:
            return
        if tables.endpoints:
            self._loader.apply(tables, found_links.interfaces, found_links.others, overlays)
        else:
            self._bound.clear()
            self._loader.remove()
        earlier_rules, self._loaded = self._loaded, required_rules
        if earlier_rules is None or earlier_rules.interfaces != required_rules.interfaces:
            with_hca = sum(
                interface.identity is not None for interface in required_rules.interfaces
            )
            _log.info(
                "rules of generation %d on %d links, %d of them of pods with an HCA",
                required_rules.generation,
                len(required_rules.interfaces),
                with_hca,
            )

    def remove(self) -> None:
        """Remove all rules and classifiers. Raises SecondLayerError."""
        self._tables = self._loaded = None
        self._loader.remove()

    def state(self) -> dict[str, Any]:
        """Return the status that linkd reports: the tables and links that are enforced.

        ``engine_only`` is the reason why the second layer does not enforce everything; empty if
        it does.
        """
        why = [self._trouble] if self._trouble else []
        now_s = self._clock()
        late = [
            f"{pod}: {reason}"
            for pod, (since, reason) in sorted(self._missing.items())
            if now_s - since >= PATIENCE_S
        ]
        if len(late) > _NAMED:
            late[_NAMED:] = [f"and {len(late) - _NAMED} more"]
        return {
            "generation": self.generation,
            "links": len(self._loaded.interfaces) if self._loaded is not None else 0,
            "able": True,
            "engine_only": "; ".join([*why, *late]),
        }

    def drops(self) -> dict[str, Any]:
        """Return the numbers of dropped packets by reason: in total, and for each direction of a
        link.

        If another program has removed the rules, they are loaded again.

        Raises SecondLayerError.
        """
        loaded = self._loaded
        if loaded is None or not loaded.interfaces:
            return {"totals": {}, "links": []}
        counts = self._loader.drops()
        if not set(TOTALS) <= counts.keys():
            _log.warning("the rules were removed by another program: loading them again")
            self._loaded = None
            self.reload_if_changed()
        links = []
        for interface in loaded.interfaces:
            for leaving in (True, False):
                named = {
                    r: counts.get(link_counter(interface.index, leaving, r), 0)
                    for r in (*LINK_REASONS, JOINED)
                }
                dropped = {reason: count for reason, count in named.items() if count}
                if dropped:
                    about = {"addresses": list(interface.addresses), "link": interface.name}
                    links.append({**about, "leaving": leaving, "dropped": dropped})
        return {"totals": {name: counts.get(name, 0) for name in (*TOTALS, JOINED)}, "links": links}
