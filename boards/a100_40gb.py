"""A100 40 GB: 98 of 108 SMs are usable under MIG. 1g+me needs driver R470, double memory R525."""

from boards.a100_80gb import TENSOR_TFLOPS, WHITE_PAPER
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

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          4864,   14,  ( 1, 0, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_1G_ME,       4864,   14,  ( 1, 1, 0, 1, 1), HW),
    ProfileRow(s.EIGHT_1G_DOUBLE,   9856,   14,  ( 1, 1, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_2G,          9856,   28,  ( 2, 1, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_3G,          19968,  42,  ( 3, 2, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_4G,          19968,  56,  ( 4, 2, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_7G,          40192,  98,  ( 7, 5, 0, 1, 1), HW),
)
# fmt: on

RECORD = BoardRecord(
    key="a100-40gb",
    order=20,
    product_name="NVIDIA A100-SXM4-40GB",
    architecture="Ampere",
    compute_capability=(8, 0),
    data_sheet=WHITE_PAPER,
    sms=108,
    l2_mb=40,
    power_w=400,
    performance=Performance(
        boost_ghz=1.41,
        dram_gb_per_s=1555,
        dram_gb=40,
        link_gb_per_s=300,
        pcie_gb_per_s=32,
        vector_tflops=19.5,
        tensor_tflops=TENSOR_TFLOPS,
        sibling="a100-80gb",
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x20B0,
            memory_mib=40960,
            memory_provenance=HW,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=14,
            ci_provenance=HW,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_410_000, memory_clock_khz=1_215_000, bus_bits=5120),
        sensors=Sensors(idle_w=45, idle_clock_mhz=210),
    ),
)
