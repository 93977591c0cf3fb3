"""One module per board: a table of what its driver prints. A new board is a file and a line."""

from mig.geometry.rows import BoardTable
from mig.geometry.tables import (
    a30,
    a100_40gb,
    a100_80gb,
    b200,
    h100_80gb,
    h100_nvl,
    h200,
    rtx_pro_6000,
)

TABLES: tuple[BoardTable, ...] = (
    a30.TABLE,
    a100_40gb.TABLE,
    a100_80gb.TABLE,
    h100_80gb.TABLE,
    h100_nvl.TABLE,
    h200.TABLE,
    b200.TABLE,
    rtx_pro_6000.TABLE,
)
