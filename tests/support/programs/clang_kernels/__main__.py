"""Runs every case on one file: ``python -m support.programs.clang_kernels FILE.ptx ORACLE.so``;
prints one line each.
"""

import json
import sys
import traceback
from pathlib import Path

from support.programs.clang_kernels.cases import CASES, COMPARED
from support.programs.clang_kernels.host import Host
from support.programs.client_kernels.gpu import DriverError, Gpu


def main(file: Path, library: Path) -> None:
    program, host = Gpu().load(file), Host(library)
    cases = {name: lambda p, n=name: host.compare(p, n, *COMPARED[n]()) for name in COMPARED}
    for name, case in (cases | CASES).items():
        outcome = "right"
        try:
            case(program)
        except DriverError as error:
            outcome = str(error)
        except AssertionError:
            outcome = "wrong"
            traceback.print_exc()
        print(json.dumps([name, outcome]), flush=True)


main(Path(sys.argv[1]), Path(sys.argv[2]))
