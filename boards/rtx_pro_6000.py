"""RTX PRO 6000 Blackwell 96 GB: twelve units in runs of 3, 6 and 12, which are not powers of two.

SMs of compute instances narrower than their GPU instance are derived: 46 a slice, as in 1g.
"""

from boards.record import (
    BoardRecord,
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
UNVERIFIED = Provenance.UNVERIFIED
DERIVED = Provenance.DERIVED


def _at_clock(flop_a_clock: int) -> Figure:
    rate = 188 * flop_a_clock * 2.43e-3
    return Figure(rate, Source.DERIVED, f"SMs x {flop_a_clock} flop a clock x clock")


# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.TWELVE_1G,         24192,  46,  ( 1, 1, 1, 1, 0), HW, other_memory_mib=(23680,)),
    ProfileRow(s.TWELVE_1G_ME,      24192,  46,  ( 1, 1, 1, 1, 1), HW, other_memory_mib=(23680,)),
    ProfileRow(s.TWELVE_1G_GFX,     24192,  46,  ( 1, 1, 1, 1, 0), HW, other_memory_mib=(23680,)),
    ProfileRow(s.TWELVE_1G_ALL_ME,  24192,  46,  ( 1, 4, 4, 4, 1), HW, other_memory_mib=(23680,)),
    ProfileRow(s.TWELVE_1G_NO_ME,   24192,  46,  ( 1, 0, 0, 0, 0), HW, other_memory_mib=(23680,)),
    ProfileRow(s.TWELVE_2G,         48512,  94,  ( 2, 2, 2, 2, 0), HW, other_memory_mib=(47616,)),
    ProfileRow(s.TWELVE_2G_GFX,     48512,  94,  ( 2, 2, 2, 2, 0), HW, other_memory_mib=(47616,)),
    ProfileRow(s.TWELVE_2G_ALL_ME,  48512,  94,  ( 2, 4, 4, 4, 1), HW, other_memory_mib=(47616,)),
    ProfileRow(s.TWELVE_2G_NO_ME,   48512,  94,  ( 2, 0, 0, 0, 0), HW, other_memory_mib=(47616,)),
    ProfileRow(s.TWELVE_4G,         97280,  188, ( 4, 4, 4, 4, 1), HW,
               other_memory_mib=(95616, 97408,)),
    ProfileRow(s.TWELVE_4G_GFX,     97280,  188, ( 4, 4, 4, 4, 1), HW,
               other_memory_mib=(95616, 97408,)),
)
# fmt: on

RECORD = BoardRecord(
    key="rtx-pro-6000",
    order=100,
    product_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    architecture="Blackwell",
    compute_capability=(12, 0),
    data_sheet="NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet",
    sms=188,
    l2_mb=128,
    power_w=600,
    performance=Performance(
        boost_ghz=Figure(2.43, Source.MEASURED, "largest SM clock that nvidia-smi reports"),
        # Not the workstation editions' 1792 GB/s: GDDR7 at 25 Gbit/s a pin, not 28.
        dram_gb_per_s=1597,
        dram_gb=96,
        link_gb_per_s=64,
        pcie_gb_per_s=64,
        vector_tflops=120.0,
        tensor_tflops={
            "bf16": _at_clock(1024),
            "fp16": _at_clock(1024),
            "tf32": _at_clock(512),
            "fp8": _at_clock(2048),
            "nvfp4": _at_clock(4096),
        },
        lenders={"stream": "l40s"},
    ),
    device=Device(
        geometry=Geometry(
            pci_device_id=0x2BB5,
            memory_mib=97887,
            memory_provenance=UNVERIFIED,
            placement_units=12,
            compute_slices=4,
            ci_sm_per_slice=46,
            ci_provenance=DERIVED,
            rows=ROWS,
        ),
        silicon=Silicon(max_clock_khz=2_430_000, memory_clock_khz=12_481_000, bus_bits=512),
        sensors=Sensors(idle_w=30, idle_clock_mhz=180, idle_memory_clock_mhz=405),
    ),
)
