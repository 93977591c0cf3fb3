"""H200 141 GB. The row for the whole GPU comes from a parser's test recording only.

Placements are assumed to equal H100's, because no listing from an H200 was found.
"""

from boards.h100_80gb import TENSOR_TFLOPS
from boards.record import (
    BoardRecord,
    CublasException,
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
RECORDED = Provenance.RECORDED
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          16384,  16,  ( 1, 1, 0, 1, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_1G_ME,       16384,  16,  ( 1, 1, 0, 1, 1), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   33024,  26,  ( 1, 1, 0, 1, 0), HW,
               other_memory_mib=(33280,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_2G,          33024,  32,  ( 2, 2, 0, 2, 0), HW,
               other_memory_mib=(33280,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_3G,          71168,  60,  ( 3, 3, 0, 3, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_4G,          71168,  64,  ( 4, 4, 0, 4, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_7G,          143360, 132, ( 8, 7, 0, 7, 1), RECORDED, derived=("starts",)),
)
# fmt: on

RECORD = BoardRecord(
    key="h200",
    order=60,
    product_name="NVIDIA H200",
    architecture="Hopper",
    compute_capability=(9, 0),
    data_sheet="NVIDIA H200 data sheet; H100's chip",
    sms=132,
    l2_mb=50,
    power_w=700,
    performance=Performance(
        boost_ghz=1.83,
        dram_gb_per_s=4800,
        dram_gb=141,
        link_gb_per_s=450,
        pcie_gb_per_s=64,
        vector_tflops=66.9,
        tensor_tflops=TENSOR_TFLOPS,
        # cuBLAS chooses other kernels than on an H100, although the chip is the same.
        cublas_exception=CublasException(7, 1024, 2560, stages=1.5),
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2335,
            memory_mib=143771,
            memory_provenance=UNVERIFIED,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=16,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_980_000, memory_clock_khz=3_201_000, bus_bits=6144),
        sensors=Sensors(idle_w=75, idle_clock_mhz=345),
    ),
)
