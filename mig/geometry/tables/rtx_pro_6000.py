"""RTX PRO 6000 Blackwell 96 GB: twelve units in runs of 3, 6 and 12, so no power of two.

SMs of compute instances narrower than their GPU instance are derived: 46 a slice, as 1g has.
"""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
UNVERIFIED = Provenance.UNVERIFIED
DERIVED = Provenance.DERIVED

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

TABLE = BoardTable(
    key="rtx-pro-6000",
    product_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    architecture="Blackwell",
    compute_capability=(12, 0),
    pci_device_id=0x2BB5,
    memory_mib=97887,
    memory_provenance=UNVERIFIED,
    sm_count=188,
    placement_units=12,
    compute_slices=4,
    ci_sm_per_slice=46,
    ci_provenance=DERIVED,
    rows=ROWS,
)
