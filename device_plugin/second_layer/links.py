"""Loads the second layer where the host's ends of the pods' links are: by ``nft`` and ``tc``."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer import segments
from rdma.second_layer import Interface, removal, ruleset
from rdma.tables import NodeTables

_TOOLS = ("nft", "tc")
_PRIORITY = "4791"  # of our classifier among those of others
_TIMEOUT_S = 20.0


class Links:
    """The second layer of one network namespace, entered by a command that others are put behind.

    ``pinned`` is where the classifier is kept, in a BPF file system that outlives this process.
    """

    def __init__(self, entering: Sequence[str], pinned: Path) -> None:
        """Load the classifier. Raises SecondLayerError: the node has not what it takes."""
        self._entering = tuple(entering)
        self._pinned = pinned
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            raise SecondLayerError(f"{' and '.join(missing)} missing in the image")
        try:
            segments.pin(pinned)
        except OSError as err:
            raise SecondLayerError(f"{pinned}: {err}") from err

    def apply(self, tables: NodeTables, interfaces: Iterable[Interface]) -> None:
        """Make the rules those of ``tables``, in one step, and see to every link's classifier.

        Raises:
            SecondLayerError: a tool refused it; the rules that were there are still there.
        """
        listed = tuple(interfaces)
        for one in listed:
            self._run("tc", "qdisc", "replace", "dev", one.name, "clsact")
            # A handle of our own: what is there is replaced, and nothing of others is.
            classifier = ("bpf", "direct-action", "object-pinned", str(self._pinned))
            place = ("ingress", "prio", _PRIORITY, "handle", "1")
            self._run("tc", "filter", "replace", "dev", one.name, *place, *classifier)
        self._run("nft", "-f", "-", given=ruleset(tables, listed))

    def remove(self, names: Iterable[str]) -> None:
        """Leave nothing on the links of these names; those that have gone are passed over.

        Raises:
            SecondLayerError: the rules could not be removed.
        """
        for name in names:
            self._attempt("tc", "filter", "del", "dev", name, "ingress", "prio", _PRIORITY)
        self._run("nft", "-f", "-", given=removal())

    def _run(self, *command: str, given: str = "") -> None:
        done = self._attempt(*command, given=given)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
            raise SecondLayerError(f"{' '.join(command)}: {said or done.returncode}")

    def _attempt(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._entering, *command],
                input=given,
                text=True,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise SecondLayerError(f"{' '.join(command)}: {err}") from err
