"""Runs rdma-core's own tests (pyverbs) with the distribution's Python: ``FOLDER RESULTS
MODULE...``.

It is started by ``tessera run --hca``; ``RESULTS`` gets a line of JSON for each test: its name,
its outcome, and the reason of a skip or failure. Nothing of this repository is imported.
"""

import json
import os
import sys
import unittest

ADDRESS = "TESSERA_HCA_ADDRESS"
DEVICE = ["--dev", "tessera_0", "--port", "1", "--gid", "1"]


class Recorder(unittest.TestResult):
    """Writes each outcome at once, so that the outcomes before a crash are kept."""

    def __init__(self, results):
        super().__init__()
        self.results = results

    def record(self, test, outcome, reason=""):
        name = test.id() if hasattr(test, "id") else str(test)
        row = {"test": name.removeprefix("tests."), "outcome": outcome, "reason": reason}
        self.results.write(json.dumps(row) + "\n")
        self.results.flush()

    def addSuccess(self, test):
        self.record(test, "passed")

    def addSkip(self, test, reason):
        self.record(test, "skipped", reason)

    def addError(self, test, err):
        self.record(test, "failed", f"{err[0].__name__}: {err[1]}".splitlines()[0])

    addFailure = addError  # noqa: N815 - unittest's name


def tell_address(case):
    """Make the tests of rdma_cm use the function's address.

    They look for the network interface that belongs to the device, and for its address. This
    device has an address, and no interface.
    """

    def take_from_environment(self, device, port, index):
        self.args.append([device, port, index, os.environ.get(ADDRESS), None])

    case._get_ip_mac = take_from_environment


def main(folder, results, *modules):
    """Run the modules in that folder."""
    sys.path[:0] = [folder, f"{folder}/tests"]
    sys.argv[1:] = DEVICE
    from args_parser import parser

    parser.parse_args()
    from tests.base import RDMATestCase

    tell_address(RDMATestCase)
    loader = unittest.TestLoader()
    with open(results, "w", encoding="utf-8") as rows:
        recorder = Recorder(rows)
        for module in modules:
            loader.loadTestsFromName(f"tests.{module}").run(recorder)


if __name__ == "__main__":
    main(*sys.argv[1:])
