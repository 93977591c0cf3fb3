"""A100 80 GB: as the 40 GB board with twice the memory; an older rounding printed 7g.79gb."""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
UNVERIFIED = Provenance.UNVERIFIED

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

TABLE = BoardTable(
    key="a100-80gb",
    product_name="NVIDIA A100-SXM4-80GB",
    architecture="Ampere",
    compute_capability=(8, 0),
    pci_device_id=0x20B2,
    memory_mib=81920,
    memory_provenance=UNVERIFIED,
    sm_count=108,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=14,
    ci_provenance=HW,
    rows=ROWS,
)
