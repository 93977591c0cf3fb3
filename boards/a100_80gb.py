"""A100 80 GB: the 40 GB board with twice the memory. Older drivers rounded differently: 7g.79gb."""

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
UNVERIFIED = Provenance.UNVERIFIED

# The chip is that of the 40 GB board.
WHITE_PAPER: Final = "NVIDIA A100 Tensor Core GPU Architecture, table of specifications"
TENSOR_TFLOPS: Final = {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "int8": 624.0}

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          9728,   14,  ( 1, 0, 0, 0, 0), HW, other_memory_mib=(9984,)),
    ProfileRow(s.EIGHT_1G_ME,       9728,   14,  ( 1, 1, 0, 1, 1), HW, other_memory_mib=(9984,)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   19968,  14,  ( 1, 1, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_2G,          19968,  28,  ( 2, 1, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_3G,          40192,  42,  ( 3, 2, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_4G,          40192,  56,  ( 4, 2, 0, 0, 0), HW),
    ProfileRow(s.EIGHT_7G,          80640,  98,  ( 7, 5, 0, 1, 1), HW,
               other_memory_mib=(80384,),
               aliases=("7g.79gb",)),
)
# fmt: on

RECORD = BoardRecord(
    key="a100-80gb",
    order=30,
    product_name="NVIDIA A100-SXM4-80GB",
    architecture="Ampere",
    compute_capability=(8, 0),
    data_sheet=WHITE_PAPER,
    sms=108,
    l2_mb=40,
    power_w=400,
    performance=Performance(
        boost_ghz=1.41,
        dram_gb_per_s=2039,
        dram_gb=80,
        link_gb_per_s=300,
        pcie_gb_per_s=32,
        vector_tflops=19.5,
        tensor_tflops=TENSOR_TFLOPS,
        lenders={"stream": "h100-80gb"},
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x20B2,
            memory_mib=81920,
            memory_provenance=UNVERIFIED,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=14,
            ci_provenance=HW,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_410_000, memory_clock_khz=1_593_000, bus_bits=5120),
        sensors=Sensors(idle_w=60, idle_clock_mhz=210),
    ),
)
