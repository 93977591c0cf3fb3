"""The agent's requests to hcad: its functions, and the pods that they are bound to."""

from collections.abc import Sequence

from device_plugin.backends.administration import Administration
from device_plugin.errors import HcadError, HcadUnreachable
from device_plugin.inventory.model import HolderPod
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class FunctionState:
    """A function as hcad reports it; ``pod_uid`` is empty if no pod has the function."""

    name: str
    pod_uid: str
    addresses: tuple[str, ...]
    refused: str


class Hcad(Administration):
    """A client of hcad's administration socket.

    Every method may raise HcadError or HcadUnreachable.
    """

    daemon = "hcad"
    refused = HcadError
    unreachable = HcadUnreachable

    def functions(self) -> dict[str, FunctionState]:
        """Return the state of all functions, by name."""
        try:
            return {
                function["function"]: FunctionState(
                    function["function"],
                    function["pod_uid"],
                    tuple(function["addresses"]),
                    function["refused"],
                )
                for function in self.call("status")["functions"]
            }
        except (KeyError, TypeError) as err:
            raise HcadError("mismatch", f"status of another version: {err!r}") from err

    def add(self, name: str, rate_gbps: int) -> None:
        """Create a function that is not bound to a pod yet."""
        self.call("function-add", function=name, rate_gbps=rate_gbps)

    def bind(self, name: str, pod: HolderPod, addresses: Sequence[str], refused: str) -> None:
        """Bind a function to a pod with these addresses.

        ``refused`` is the reason why the pod may not use the function; empty if it may.
        """
        self.call(
            "function-bind",
            function=name,
            pod_uid=pod.uid,
            pod=f"{pod.namespace}/{pod.name}",
            addresses=list(addresses),
            refused=refused,
        )

    def release(self, name: str) -> None:
        """Release a function from its pod; its queue pairs are gone when this returns."""
        self.call("function-release", function=name)
