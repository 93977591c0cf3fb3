"""GB200: one of its two GPUs. Tessera predicts times for this board, but does not simulate it."""

from boards.b200 import FROM_RATE, REPORTED
from boards.record import BoardRecord, Figure, Performance, Source

RECORD = BoardRecord(
    key="gb200",
    order=80,
    product_name="NVIDIA GB200",
    architecture="Blackwell",
    compute_capability=(10, 0),
    data_sheet="NVIDIA GB200 NVL72 data sheet, a 72nd of it",
    sms=Figure(152, Source.MEASURED, REPORTED),
    l2_mb=Figure(126, Source.MEASURED, REPORTED),
    power_w=1200,
    performance=Performance(
        boost_ghz=Figure(2.008, Source.DERIVED, FROM_RATE),
        dram_gb_per_s=8000,
        dram_gb=186,
        link_gb_per_s=900,
        pcie_gb_per_s=64,
        vector_tflops=80.0,
        tensor_tflops={
            "bf16": 2500.0,
            "fp16": 2500.0,
            "tf32": 1250.0,
            "fp8": 5000.0,
            "nvfp4": 10000.0,
        },
        lenders={"stream": "b200"},
    ),
)
