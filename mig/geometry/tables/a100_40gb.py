"""A100 40 GB: 98 of 108 SMs are usable under MIG. 1g+me needs driver R470, double memory R525."""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

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

TABLE = BoardTable(
    key="a100-40gb",
    product_name="NVIDIA A100-SXM4-40GB",
    architecture="Ampere",
    compute_capability=(8, 0),
    pci_device_id=0x20B0,
    memory_mib=40960,
    memory_provenance=HW,
    sm_count=108,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=14,
    ci_provenance=HW,
    rows=ROWS,
)
