"""Runs every case whose file is in a folder:
``python -m support.programs.client_kernels FOLDER [FILE...]``.
"""

import json
import sys
import traceback
from pathlib import Path

from support.programs.client_kernels.cases import CASES
from support.programs.client_kernels.gpu import DriverError, Gpu


def main(folder: Path, wanted: list[str]) -> None:
    gpu = Gpu()
    for file, cases in CASES.items():
        if wanted and file not in wanted:
            continue
        try:
            program = gpu.load(folder / f"{file}.sm_90.ptx")
        except DriverError as error:
            for name in cases:
                print(json.dumps([file, name, str(error)]), flush=True)
            continue
        for name, case in cases.items():
            outcome = "right"
            try:
                case(program)
            except DriverError as error:
                outcome = str(error)
            except AssertionError:
                outcome = "wrong"
                traceback.print_exc()
            print(json.dumps([file, name, outcome]), flush=True)


main(Path(sys.argv[1]), sys.argv[2:])
