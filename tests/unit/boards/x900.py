"""X900 32 GB, an invented board that a test adds to a copy of the boards."""

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

ASSUMED = Provenance.DERIVED

RECORD = BoardRecord(
    key="x900",
    order=65,
    product_name="NVIDIA X900",
    architecture="Hopper",
    compute_capability=(9, 0),
    data_sheet="an invention",
    sms=64,
    l2_mb=30,
    power_w=250,
    performance=Performance(
        boost_ghz=1.5,
        dram_gb_per_s=1000,
        dram_gb=32,
        link_gb_per_s=64,
        pcie_gb_per_s=64,
        vector_tflops=24.6,
        tensor_tflops={"bf16": 393.0, "fp16": 393.0, "tf32": 196.5, "fp8": 786.0, "int8": 786.0},
        sibling="h100-80gb",
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2FFF,
            memory_mib=32768,
            memory_provenance=ASSUMED,
            placement_units=4,
            compute_slices=4,
            ci_sm_per_slice=16,
            ci_provenance=ASSUMED,
            rows=(
                ProfileRow(s.FOUR_1G, 8064, 16, (1, 1, 0, 1, 0), ASSUMED),
                ProfileRow(s.FOUR_1G_ME, 8064, 16, (1, 1, 0, 1, 1), ASSUMED),
                ProfileRow(s.FOUR_2G, 16128, 32, (2, 2, 0, 2, 0), ASSUMED),
                ProfileRow(s.FOUR_4G, 32256, 64, (4, 4, 0, 4, 1), ASSUMED),
            ),
        ),
        silicon=Silicon(max_clock_khz=1_600_000, memory_clock_khz=1_220_703, bus_bits=3277),
        sensors=Sensors(idle_w=33, idle_clock_mhz=300),
    ),
)
