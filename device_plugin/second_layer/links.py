"""Loads the second layer on the host's ends of the pods' links: ``nft`` rules and a classifier.

``nft`` is the reference implementation of its language, in which the rules are documented;
libraries for the kernel's netlink messages cover only a part of it.
"""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer.kernel import Namespace
from rdma.forward_guard import Overlays
from rdma.second_layer import (
    FAMILIES,
    JOINED,
    TABLE,
    Interface,
    Present,
    link_counter,
    removal,
    ruleset,
)
from rdma.tables import NodeTables

_TOOL = "nft"
_TIMEOUT_S = 20.0


class Links:
    """Loads the rules and the classifier of the second layer in one network namespace.

    ``entering`` is a command prefix that runs ``nft`` in this namespace, if it is not the process's
    own.
    """

    def __init__(self, namespace: Namespace, entering: Sequence[str] = ()) -> None:
        """Find the command ``nft``. Raises SecondLayerError if the image lacks it."""
        self._entering = tuple(entering)
        self._namespace = namespace
        self._classified: frozenset[int] = frozenset()
        if shutil.which(_TOOL) is None:
            raise SecondLayerError(f"{_TOOL} is missing in the image")

    def apply(
        self,
        tables: NodeTables,
        interfaces: Iterable[Interface],
        others: Iterable[str] | None = None,
        overlays: Overlays | None = None,
    ) -> None:
        """Load the rules of ``tables`` in one step, and attach the classifier to every link.

        The counters of the previous rules continue, also those of an earlier process.

        ``others`` are the veths that belong to no pod. If ``others`` is None, there are no rules
        for the packets that the node receives or forwards. ``overlays`` describes the node's
        devices that encapsulate packets.

        Raises:
            SecondLayerError: ``nft`` or the kernel refused the rules; the previous rules remain.
        """
        listed = tuple(interfaces)
        interface_indexes = frozenset(interface.index for interface in listed)
        for index in sorted(interface_indexes - self._classified):
            self._namespace.attach_classifier(index)
        present = self._present()
        self._load(ruleset(tables, listed, others=others, overlays=overlays, present=present))
        for index in sorted(self._namespace.classified_links() - interface_indexes):
            self._namespace.detach_classifier(index)
        self._classified = interface_indexes

    def drops(self) -> Mapping[str, int]:
        """Return how many packets the rules and classifiers dropped, by counter.

        Raises SecondLayerError.
        """
        joined = self._namespace.classifier_drops()
        counts = dict(self.counts())
        for index in self._classified & joined.keys():
            counts[link_counter(index, True, JOINED)] = joined[index]
        counts[JOINED] = sum(joined[index] for index in self._classified & joined.keys())
        return counts

    def counts(self) -> Mapping[str, int]:
        """Return the packet count of each of the rules' counters. Raises SecondLayerError.

        A counter of both tables, such as ``spoofed``, has the sum.
        """
        counts: Counter[str] = Counter()
        with _parsing("list counters"):
            for counter in self._list("counter", "counters"):
                if counter["table"] == TABLE:
                    counts[counter["name"]] += int(counter["packets"])
        return dict(counts)

    def remove(self) -> None:
        """Remove all rules and classifiers, including those of earlier processes.

        Raises:
            SecondLayerError: something could not be removed.
        """
        self._load(removal())
        for index in sorted(self._namespace.classified_links()):
            self._namespace.detach_classifier(index)
        self._classified = frozenset()

    def _present(self) -> Mapping[str, Present]:
        """Return the objects of the loaded tables, by family. Raises SecondLayerError.

        Only the second layer's own tables are listed: other programs' may be large, or made by
        another version of ``nft``.
        """
        with _parsing("list tables"):
            listed_tables = self._list("table", "tables")
            loaded = [table["family"] for table in listed_tables if table["name"] == TABLE]
        present = {}
        for family in FAMILIES:
            if family in loaded:
                with _parsing("list table"):
                    listing = self._run(_TOOL, "-j", "-t", "list", "table", family, TABLE)
                    names = [
                        frozenset(nft_object["name"] for nft_object in _of_kind(kind, listing))
                        for kind in ("chain", "set", "counter")
                    ]
                present[family] = Present(*names)
        return present

    def _list(self, kind: str, collection: str) -> list[dict[str, Any]]:
        return _of_kind(kind, self._run(_TOOL, "-j", "list", collection))

    def _load(self, text: str) -> None:
        self._run(_TOOL, "-f", "-", input_text=text)

    def _run(self, *command: str, input_text: str = "") -> str:
        try:
            process = subprocess.run(
                [*self._entering, *command],
                input=input_text,
                text=True,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise SecondLayerError(f"{' '.join(command)}: {err}") from err
        if process.returncode != 0:
            error_line = (process.stderr.strip() or process.stdout.strip()).partition("\n")[0]
            raise SecondLayerError(
                f"{' '.join(command)}: {error_line or f'exit status {process.returncode}'}"
            )
        return process.stdout


@contextmanager
def _parsing(command: str) -> Iterator[None]:
    """Raise SecondLayerError if the output of a command of ``nft`` is invalid."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as err:
        raise SecondLayerError(f"{_TOOL} {command}: invalid output: {err!r}") from err


def _of_kind(kind: str, listing: str) -> list[dict[str, Any]]:
    return [
        nft_object[kind] for nft_object in json.loads(listing)["nftables"] if kind in nft_object
    ]
