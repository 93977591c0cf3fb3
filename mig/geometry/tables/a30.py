"""A30 24 GB: four slices on four units. 1g+me needs driver R470, 2g+me R525."""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
UNVERIFIED = Provenance.UNVERIFIED
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.FOUR_1G,           5952,   14,  ( 1, 1, 0, 0, 0), HW,
               note="the vendor's table says 0 decoders; the driver prints 1"),
    ProfileRow(s.FOUR_1G_ME,        5952,   14,  ( 1, 1, 0, 1, 1), HW),
    ProfileRow(s.FOUR_2G,           11968,  28,  ( 2, 2, 0, 0, 0), HW),
    ProfileRow(s.FOUR_2G_ME,        11968,  28,  ( 2, 2, 0, 1, 1), HW),
    ProfileRow(s.FOUR_4G,           24000,  56,  ( 4, 4, 0, 1, 1), HW),
)
# fmt: on

TABLE = BoardTable(
    key="a30",
    product_name="NVIDIA A30",
    architecture="Ampere",
    compute_capability=(8, 0),
    pci_device_id=0x20B7,
    memory_mib=24576,
    memory_provenance=UNVERIFIED,
    sm_count=56,
    placement_units=4,
    compute_slices=4,
    ci_sm_per_slice=14,
    ci_provenance=DERIVED,
    rows=ROWS,
)
