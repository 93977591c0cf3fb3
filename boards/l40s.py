"""L40S, which does not support MIG. Tessera predicts times for it, but does not simulate it."""

from boards.record import BoardRecord, Performance

RECORD = BoardRecord(
    key="l40s",
    order=90,
    product_name="NVIDIA L40S",
    architecture="Ada Lovelace",
    compute_capability=(8, 9),
    data_sheet="NVIDIA L40S data sheet; Ada architecture white paper",
    sms=142,
    l2_mb=96,
    power_w=350,
    performance=Performance(
        boost_ghz=2.52,
        dram_gb_per_s=864,
        dram_gb=48,
        link_gb_per_s=32,
        pcie_gb_per_s=32,
        vector_tflops=91.6,
        tensor_tflops={"bf16": 362.05, "fp16": 362.05, "tf32": 183.0, "fp8": 733.0, "int8": 733.0},
    ),
)
