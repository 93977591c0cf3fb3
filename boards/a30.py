"""A30 24 GB: four slices on four placement units. 1g+me needs driver R470, 2g+me driver R525."""

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
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.FOUR_1G,           5952,   14,  ( 1, 1, 0, 0, 0), HW,
               note="the vendor's table says 0 decoders; the driver prints 1"),
    ProfileRow(s.FOUR_1G_ME,        5952,   14,  ( 1, 1, 0, 1, 1), HW),
    ProfileRow(s.FOUR_2G,           11968,  28,  ( 2, 2, 0, 0, 0), HW),
    ProfileRow(s.FOUR_2G_ME,        11968,  28,  ( 2, 2, 0, 1, 1), HW),
    ProfileRow(s.FOUR_4G,           24000,  56,  ( 4, 4, 0, 1, 1), HW),
)
# fmt: on

RECORD = BoardRecord(
    key="a30",
    order=10,
    product_name="NVIDIA A30",
    architecture="Ampere",
    compute_capability=(8, 0),
    data_sheet="NVIDIA A30 data sheet",
    sms=56,
    l2_mb=24,
    power_w=165,
    performance=Performance(
        boost_ghz=1.44,
        dram_gb_per_s=933,
        dram_gb=24,
        link_gb_per_s=32,
        pcie_gb_per_s=32,
        vector_tflops=10.3,
        tensor_tflops={"bf16": 165.0, "fp16": 165.0, "tf32": 82.0, "int8": 330.0},
        sibling="a100-80gb",
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x20B7,
            memory_mib=24576,
            memory_provenance=UNVERIFIED,
            placement_units=4,
            compute_slices=4,
            ci_sm_per_slice=14,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_440_000, memory_clock_khz=1_215_000, bus_bits=3072),
        sensors=Sensors(idle_w=30, idle_clock_mhz=210),
    ),
)
