"""A node's inventory with a sliced and a whole GPU, and the metrics that an exporter derives from
it.
"""

from dataclasses import replace
from pathlib import Path

from device_plugin.errors import GpudUnreachable
from device_plugin.exporter import app
from device_plugin.exporter.collector import InventoryCollector
from device_plugin.exporter.source import Source
from vgpu_sim.hal.management import admin

MIB = 1 << 20
TELEMETRY = admin.Telemetry(
    activity=admin.Activity(engine=0.25),
    gpu_utilization_percent=25,
    memory_utilization_percent=3,
    sm_clock_mhz=1980,
    memory_clock_mhz=2619,
    max_sm_clock_mhz=1980,
    max_memory_clock_mhz=2619,
    power_draw_mw=123_456,
    power_limit_mw=700_000,
    energy_mj=987_654,
    temperature_c=41,
    memory_temperature_c=43,
    slowdown_temperature_c=89,
    shutdown_temperature_c=92,
    fans_percent=(),
    performance_state=0,
    pcie_tx_bytes_per_s=10,
    pcie_rx_bytes_per_s=20,
)
SLICE = admin.Instance(
    *("MIG-1", "1g.10gb", 2, 1, 100 * MIB, 16, 30 * MIB + 1, "/run/s", True),
    holders=(
        admin.Holder("u2", "team", "zeta", "other"),
        admin.Holder("u1", "team", "train-0", "main"),
    ),
    contexts=(),
    gi_id=9,
    ci_id=0,
    counters=admin.Counters(contexts=2, launches=30, busy_ns=1_500_000_000),
    activity=admin.Activity(engine=0.5, tensor=0.125),
)
SLICED = admin.Gpu(
    *("GPU-1", 0, "h100-80gb", "NVIDIA H100", 80 * MIB, 132, (9, 0), "Healthy", (SLICE,)),
    mig_enabled=True,
    pci_bus_id="00000000:01:00.0",
    telemetry=TELEMETRY,
)
WHOLE = replace(
    SLICED,
    uuid="GPU-2",
    index=1,
    health="Unhealthy: x",
    mig_enabled=False,
    instances=(replace(SLICE, uuid="GPU-2", profile="whole", gi_id=-1, ci_id=-1),),
)
NODE = admin.Inventory(
    *("1.0", "/lib", "/slices"),
    admin.Isolation(False, "why"),
    admin.Sandbox({}, False),
    admin.Budget(40, 10),
    (SLICED, WHOLE),
)


class Fixed(Source):
    """A source with a fixed inventory; None: gpud is unreachable."""

    def __init__(self, node: admin.Inventory | None) -> None:
        super().__init__(Path("/nowhere"))
        self._node = node

    def inventory(self) -> admin.Inventory:
        if self._node is None:
            raise GpudUnreachable("it is away")
        return self._node


def scrape(node: admin.Inventory | None = NODE, accept: str = "") -> str:
    given = app.answer(InventoryCollector(Fixed(node), "worker-1"), "/metrics", accept)
    assert given.status == 200
    return given.body.decode()
