"""H100 SXM5 80 GB. SMs are not proportional: profiles rich in memory get the left-over TPCs."""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          9984,   16,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(9856,)),
    ProfileRow(s.EIGHT_1G_ME,       9984,   16,  ( 1, 1, 0, 1, 1), HW, other_memory_mib=(9856,)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   20096,  26,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(19968,)),
    ProfileRow(s.EIGHT_2G,          20096,  32,  ( 2, 2, 0, 2, 0), HW, other_memory_mib=(19968,)),
    ProfileRow(s.EIGHT_3G,          40448,  60,  ( 3, 3, 0, 3, 0), HW, other_memory_mib=(40192,)),
    ProfileRow(s.EIGHT_4G,          40448,  64,  ( 4, 4, 0, 4, 0), HW, other_memory_mib=(40192,)),
    ProfileRow(s.EIGHT_7G,          81152,  132, ( 8, 7, 0, 7, 1), HW,
               aliases=("7g.79gb",)),
)
# fmt: on

TABLE = BoardTable(
    key="h100-80gb",
    product_name="NVIDIA H100 80GB HBM3",
    architecture="Hopper",
    compute_capability=(9, 0),
    pci_device_id=0x2330,
    memory_mib=81559,
    memory_provenance=HW,
    sm_count=132,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=16,
    ci_provenance=DERIVED,
    rows=ROWS,
)
