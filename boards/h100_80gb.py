"""H100 SXM5 80 GB. SMs are not proportional to memory: large-memory profiles get the spare TPCs."""

from typing import Final

from boards.record import (
    BoardRecord,
    Device,
    Geometry,
    Performance,
    ProfileRow,
    Provenance,
    Sensors,
    Silicon,
    shapes as s,
)

HW = Provenance.HARDWARE
DERIVED = Provenance.DERIVED

# The chip is that of H200.
TENSOR_TFLOPS: Final = {
    "bf16": 989.4,
    "fp16": 989.4,
    "tf32": 494.7,
    "fp8": 1978.9,
    "int8": 1978.9,
}

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          9984,   16,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(9856,)),
    ProfileRow(s.EIGHT_1G_ME,       9984,   16,  ( 1, 1, 0, 1, 1), HW, other_memory_mib=(9856,)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   20096,  26,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(19968,)),
    ProfileRow(s.EIGHT_2G,          20096,  32,  ( 2, 2, 0, 2, 0), HW, other_memory_mib=(19968,)),
    ProfileRow(s.EIGHT_3G,          40448,  60,  ( 3, 3, 0, 3, 0), HW, other_memory_mib=(40192,)),
    ProfileRow(s.EIGHT_4G,          40448,  64,  ( 4, 4, 0, 4, 0), HW, other_memory_mib=(40192,)),
    ProfileRow(s.EIGHT_7G,          81152,  132, ( 8, 7, 0, 7, 1), HW,
               aliases=("7g.79gb",)),
)
# fmt: on

RECORD = BoardRecord(
    key="h100-80gb",
    order=40,
    product_name="NVIDIA H100 80GB HBM3",
    architecture="Hopper",
    compute_capability=(9, 0),
    data_sheet="NVIDIA H100 Tensor Core GPU Architecture, table of specifications",
    sms=132,
    l2_mb=50,
    power_w=700,
    performance=Performance(
        boost_ghz=1.83,
        dram_gb_per_s=3350,
        dram_gb=80,
        link_gb_per_s=450,
        pcie_gb_per_s=64,
        vector_tflops=66.9,
        tensor_tflops=TENSOR_TFLOPS,
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2330,
            memory_mib=81559,
            memory_provenance=HW,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=16,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(
            max_clock_khz=1_980_000,
            memory_clock_khz=2_619_000,
            bus_bits=5120,
            async_engines=3,  # driver 580.159 (docs/silicon.md)
        ),
        sensors=Sensors(idle_w=70, idle_clock_mhz=345),
    ),
)
