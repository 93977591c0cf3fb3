"""B200 180 GB. Hardware printed the first four rows; 3g, 4g and 7g are documented or derived.

Placements are assumed to be Hopper's: no listing of B200's was found. The vendor's table
gives one decoder and one JPEG engine for every row, which printed listings do contradict.
"""

from mig.geometry import shapes as s
from mig.geometry.provenance import Provenance
from mig.geometry.rows import BoardTable, ProfileRow

HW = Provenance.HARDWARE
DOC = Provenance.VENDOR_DOCUMENT
DERIVED = Provenance.DERIVED

# fmt: off
ROWS = (
    #          shape                MiB     SM   CE DEC ENC JPG OFA   source
    ProfileRow(s.EIGHT_1G,          22528,  18,  ( 2, 1, 0, 1, 0), HW,
               other_memory_mib=(20992,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_1G_ME,       22528,  18,  ( 2, 1, 0, 1, 1), HW,
               other_memory_mib=(20992,),
               derived=("starts",)),
    ProfileRow(s.EIGHT_1G_DOUBLE,   45312,  30,  ( 2, 1, 0, 1, 0), HW, derived=("starts",)),
    ProfileRow(s.EIGHT_2G,          45312,  36,  ( 4, 2, 0, 2, 0), HW,
               derived=("starts",),
               note="the vendor's table says CE 3, DEC 1, JPG 1; the driver prints 4, 2, 2"),
    ProfileRow(s.EIGHT_3G,          91136,  70,  ( 6, 3, 0, 3, 0), DERIVED,
               note="about 89 GiB and about 70 SMs: not seen printed"),
    ProfileRow(s.EIGHT_4G,          91136,  72,  ( 8, 4, 0, 4, 0), DOC,
               derived=("memory_bytes", "engines", "starts"),
               note="about 89 GiB: not seen printed"),
    ProfileRow(s.EIGHT_7G,          182272, 148, (16, 7, 0, 7, 1), DOC,
               derived=("memory_bytes", "sm_count", "engines", "starts"),
               note="about 178 GiB: not seen printed"),
)
# fmt: on

TABLE = BoardTable(
    key="b200",
    product_name="NVIDIA B200",
    architecture="Blackwell",
    compute_capability=(10, 0),
    pci_device_id=0x2901,
    memory_mib=183359,
    memory_provenance=HW,
    sm_count=148,
    placement_units=8,
    compute_slices=7,
    ci_sm_per_slice=18,
    ci_provenance=DERIVED,
    rows=ROWS,
)
