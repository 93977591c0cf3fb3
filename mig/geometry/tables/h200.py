"""H200 141 GB. The whole GPU's row is known from a parser's recording only.

Placements are assumed to be those that H100 prints: no listing of H200's was found.
"""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
UNVERIFIED = Provenance.UNVERIFIED
RECORDED = Provenance.RECORDED
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          16384,  16,  ( 1, 1, 0, 1, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_1G_ME,       16384,  16,  ( 1, 1, 0, 1, 1), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   33024,  26,  ( 1, 1, 0, 1, 0), HW,
               other_memory_mib=(33280,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_2G,          33024,  32,  ( 2, 2, 0, 2, 0), HW,
               other_memory_mib=(33280,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_3G,          71168,  60,  ( 3, 3, 0, 3, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_4G,          71168,  64,  ( 4, 4, 0, 4, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_7G,          143360, 132, ( 8, 7, 0, 7, 1), RECORDED, derived=("starts",)),
)
# fmt: on

TABLE = BoardTable(
    key="h200",
    product_name="NVIDIA H200",
    architecture="Hopper",
    compute_capability=(9, 0),
    pci_device_id=0x2335,
    memory_mib=143771,
    memory_provenance=UNVERIFIED,
    sm_count=132,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=16,
    ci_provenance=DERIVED,
    rows=ROWS,
)
