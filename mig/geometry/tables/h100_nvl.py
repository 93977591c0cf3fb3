"""H100 NVL 94 GB: SMs and engines as on the 80 GB board."""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
UNVERIFIED = Provenance.UNVERIFIED
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          11008,  16,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(10880,)),
    ProfileRow(s.EIGHT_1G_ME,       11008,  16,  ( 1, 1, 0, 1, 1), HW, other_memory_mib=(10880,)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   22144,  26,  ( 1, 1, 0, 1, 0), HW, other_memory_mib=(22016,)),
    ProfileRow(s.EIGHT_2G,          22144,  32,  ( 2, 2, 0, 2, 0), HW, other_memory_mib=(22016,)),
    ProfileRow(s.EIGHT_3G,          47488,  60,  ( 3, 3, 0, 3, 0), HW, other_memory_mib=(47232,)),
    ProfileRow(s.EIGHT_4G,          47488,  64,  ( 4, 4, 0, 4, 0), HW, other_memory_mib=(47232,)),
    ProfileRow(s.EIGHT_7G,          95360,  132, ( 8, 7, 0, 7, 1), HW, other_memory_mib=(94848,)),
)
# fmt: on

TABLE = BoardTable(
    key="h100-nvl",
    product_name="NVIDIA H100 NVL",
    architecture="Hopper",
    compute_capability=(9, 0),
    pci_device_id=0x2321,
    memory_mib=95830,
    memory_provenance=UNVERIFIED,
    sm_count=132,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=16,
    ci_provenance=DERIVED,
    rows=ROWS,
)
