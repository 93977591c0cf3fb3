"""B200 180 GB.

The first four rows were printed by a board; 3g, 4g and 7g are documented or derived.

Placements are assumed to equal Hopper's, because no listing from a B200 was found. The vendor's
table gives one decoder and one JPEG engine for every row; printed listings contradict it.
"""

from typing import Final

from boards.record import (
    BoardRecord,
    CublasException,
    Device,
    Figure,
    Geometry,
    Performance,
    ProfileRow,
    Provenance,
    Sensors,
    Silicon,
    Source,
    shapes as s,
)

HW = Provenance.HARDWARE
DOC = Provenance.VENDOR_DOCUMENT
DERIVED = Provenance.DERIVED

# No data sheet has these figures; they come from the sources of GB200's figures.
REPORTED: Final = "cudaGetDeviceProperties on a board"
FROM_RATE: Final = "bf16 rate / (SMs x 8192 flop a clock)"

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          22528,  18,  ( 2, 1, 0, 1, 0), HW,
               other_memory_mib=(20992,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_1G_ME,       22528,  18,  ( 2, 1, 0, 1, 1), HW,
               other_memory_mib=(20992,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   45312,  30,  ( 2, 1, 0, 1, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_2G,          45312,  36,  ( 4, 2, 0, 2, 0), HW,
               derived=("starts",),
               note="the vendor's table says CE 3, DEC 1, JPG 1; the driver prints 4, 2, 2"),
    ProfileRow(s.EIGHT_3G,          91136,  70,  ( 6, 3, 0, 3, 0), DERIVED,
               note="about 89 GiB and about 70 SMs: not seen printed"),
    ProfileRow(s.EIGHT_4G,          91136,  72,  ( 8, 4, 0, 4, 0), DOC,
               derived=("memory_bytes", "engines", "starts"),
               note="about 89 GiB: not seen printed"),
    ProfileRow(s.EIGHT_7G,          182272, 148, (16, 7, 0, 7, 1), DOC,
               derived=("memory_bytes", "sm_count", "engines", "starts"),
               note="about 178 GiB: not seen printed"),
)
# fmt: on

RECORD = BoardRecord(
    key="b200",
    order=70,
    product_name="NVIDIA B200",
    architecture="Blackwell",
    compute_capability=(10, 0),
    data_sheet="NVIDIA HGX B200 data sheet, an eighth of it",
    sms=Figure(148, Source.MEASURED, REPORTED),
    l2_mb=Figure(126, Source.MEASURED, REPORTED),
    power_w=1000,
    performance=Performance(
        boost_ghz=Figure(1.856, Source.DERIVED, FROM_RATE),
        dram_gb_per_s=7700,
        dram_gb=180,
        link_gb_per_s=900,
        pcie_gb_per_s=64,
        vector_tflops=75.0,
        tensor_tflops={
            "bf16": 2250.0,
            "fp16": 2250.0,
            "tf32": 1125.0,
            "fp8": 4500.0,
            "nvfp4": 9000.0,
        },
        cublas_exception=CublasException(17, 1024, 2048, stages=2),
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2901,
            memory_mib=183359,
            memory_provenance=HW,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=18,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_965_000, memory_clock_khz=3_996_000, bus_bits=8192),
        sensors=Sensors(idle_w=140, idle_clock_mhz=120),
    ),
)
