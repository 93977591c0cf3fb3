"""Reads tables of measured times: one row per shape, times in microseconds."""

import hashlib
import re
from importlib import metadata, util
from pathlib import Path
from typing import Final

import numpy as np

from vgpu_sim.perf.errors import NoData
from vgpu_sim.records import dataclass

VERSION: Final = "0.12.0"
PACKAGE: Final = "aiconfigurator-core"
FIT_ONE_OF: Final = 50  # 2 % of the shapes are fitted, all others validate
# Names of boards in the package.
THEIRS: Final = {
    "a100-80gb": "a100_sxm",
    "h100-80gb": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "gb200": "gb200",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table of measurements by name, the version of the measured library, and the
    number of rows that were left out.
    """

    columns: dict[str, np.ndarray]
    version: str
    excluded: int = 0

    def __len__(self) -> int:
        return len(self.columns["us"])

    def rows(self, chosen: np.ndarray) -> "Table":
        """Select rows by a mask or by indices."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Table(columns, self.version, self.excluded)

    def without(self, wrong: np.ndarray) -> "Table":
        """Return the table without the rows that the mask ``wrong`` selects. The number of these
        rows is added to ``excluded``.
        """
        remaining_rows = self.rows(~wrong)
        return Table(
            remaining_rows.columns, remaining_rows.version, self.excluded + int(wrong.sum())
        )


def folder() -> Path:
    """Return the folder with the tables of the installed package. Raises NoData, which states the
    install command.
    """
    install = f"pip install '.[perf]' in the checkout, or '{PACKAGE}=={VERSION}' pyarrow"
    spec = util.find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        raise NoData(f"no measurements to compare with: {install}")
    if metadata.version(PACKAGE) != VERSION:
        raise NoData(
            f"{PACKAGE} has version {metadata.version(PACKAGE)}, but version {VERSION} is needed:"
            f" {install}"
        )
    return Path(spec.origin).parent / "systems" / "data"


def read(board: str, family: str, file: str, library: str, **kept: str) -> Table:
    """Return a library's newest table for a board. ``kept`` maps column names to values. Only the
    rows that have these values are returned.

    Raises:
        NoData: the package is missing, or has no such table.
    """
    try:
        from pyarrow import compute, parquet
    except ImportError as err:
        raise NoData(
            "no measurements to compare with: pip install '.[perf]' in the checkout"
        ) from err
    library_folder = folder() / THEIRS.get(board, board) / family / library
    files = sorted(library_folder.glob(f"*/{file}.parquet"), key=_version)
    if not files:
        raise NoData(f"{PACKAGE} has no table {file} of {library} on {board}")
    rows = parquet.read_table(files[-1])
    for name, value in kept.items():
        rows = rows.filter(compute.equal(rows[name], value))
    columns = {name: rows[name].to_numpy() for name in rows.column_names}
    columns["us"] = columns["latency"] * 1e3
    return Table(columns, files[-1].parent.name).without(columns["us"] <= 0)


def _version(file: Path) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", file.parent.name)]


def is_fitted(table: Table, one_of: int, *key: str) -> np.ndarray:
    """Return a mask of the rows used for fitting. The mask depends only on a hash of each row's
    shape, so the same shapes are always chosen.
    """
    shapes = zip(*(table.columns[name].tolist() for name in key), strict=True)
    return np.array([_bucket(",".join(map(str, shape)), one_of) == 0 for shape in shapes])


def _bucket(text: str, buckets: int) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets


def find_repeated_rows(table: Table, *key: str) -> np.ndarray:
    """Return a mask of the rows that have the same shape as an earlier row."""
    shapes = list(zip(*(table.columns[name].tolist() for name in key), strict=True))
    first: dict[tuple[object, ...], int] = {}
    return np.array([first.setdefault(shape, row) != row for row, shape in enumerate(shapes)])
