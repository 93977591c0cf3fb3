"""H100 NVL 94 GB: SMs and engines as on the 80 GB board."""

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
    ProfileRow(s.EIGHT_1G,          11008,  16,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(10880,)),
    ProfileRow(s.EIGHT_1G_ME,       11008,  16,  ( 1, 1, 0, 1, 1), HW, other_memory_mib=(10880,)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   22144,  26,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(22016,)),
    ProfileRow(s.EIGHT_2G,          22144,  32,  ( 2, 2, 0, 2, 0), HW, other_memory_mib=(22016,)),
    ProfileRow(s.EIGHT_3G,          47488,  60,  ( 3, 3, 0, 3, 0), HW, other_memory_mib=(47232,)),
    ProfileRow(s.EIGHT_4G,          47488,  64,  ( 4, 4, 0, 4, 0), HW, other_memory_mib=(47232,)),
    ProfileRow(s.EIGHT_7G,          95360,  132, ( 8, 7, 0, 7, 1), HW, other_memory_mib=(94848,)),
)
# fmt: on

RECORD = BoardRecord(
    key="h100-nvl",
    order=50,
    product_name="NVIDIA H100 NVL",
    architecture="Hopper",
    compute_capability=(9, 0),
    data_sheet="NVIDIA H100 NVL data sheet and product brief",
    sms=132,
    l2_mb=50,
    power_w=400,
    performance=Performance(
        boost_ghz=1.785,
        dram_gb_per_s=3938,
        dram_gb=94,
        link_gb_per_s=300,
        pcie_gb_per_s=64,
        vector_tflops=60.0,
        tensor_tflops={
            "bf16": 835.5,
            "fp16": 835.5,
            "tf32": 417.5,
            "fp8": 1670.5,
            "int8": 1670.5,
        },
        sibling="h100-80gb",
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2321,
            memory_mib=95830,
            memory_provenance=UNVERIFIED,
            placement_units=8,
            compute_slices=7,
            ci_sm_per_slice=16,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=1_785_000, memory_clock_khz=2_619_000, bus_bits=6016),
        sensors=Sensors(idle_w=60, idle_clock_mhz=345),
    ),
)
