"""Congestion between two network namespaces: the link marks packets, and senders slow down."""

import re
import shutil
import subprocess
import time

import pytest

from support.processes.perftest_clock import FOR_AN_HOUR, measuring, strike
from support.programs.verbs_tools import skip_without
from support.programs.wire_nodes import ADDRESSES, Nodes, needs_namespaces

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(
        shutil.which("nft") is None, reason="NOT RUN: no nft: apt-get install nftables"
    ),
]

LINK = "20 mbytes/second"
RULES = f"""
table inet marks {{
  chain arriving {{
    type filter hook prerouting priority 0;
    udp dport 4791 ip ecn != not-ect limit rate over {LINK} ip ecn set ce
  }}
}}
"""
MEASURED_S = 3
COUNTERS = "/sys/class/infiniband/tessera_0/ports/1/hw_counters"
# The counter files are written every second, so poll until the awaited counter is not zero.
SAY = (
    "for i in $(seq 600); do"
    ' test "$(cat {folder}/{awaited})" != 0 && break; sleep 0.1; done;'
    " for name in {folder}/*; do echo ${{name##*/}}=$(cat $name); done"
)


def saying(awaited: str, *command: str) -> tuple[str, ...]:
    """Return a command that runs a program, waits for a counter and prints its device's
    counters.
    """
    script = SAY.format(folder=COUNTERS, awaited=awaited)
    return ("sh", "-c", f"{' '.join(command)} && {script}")


def counters(said: str) -> dict[str, int]:
    return {
        name: int(value) for name, value in re.findall(r"^([a-z_]+)=(\d+)$", said, re.MULTILINE)
    }


def megabytes(said: str) -> float:
    """Return the average from perftest's table."""
    (row,) = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+) ", said, re.MULTILINE)
    return float(row)


@pytest.fixture
def nodes():
    with Nodes() as made:
        done = subprocess.run(
            [*made.inside(1), "nft", "-f", "-"],
            input=RULES,
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"NOT RUN: this kernel marks nothing: {done.stderr}")
        yield made


@skip_without("ib_write_bw")
def test_two_flows_through_a_link_that_marks_have_shares_of_it(nodes):
    servers, clients = [], []
    try:
        for port in (18515, 18516):
            command = ("ib_write_bw", "-F", *FOR_AN_HOUR, "-p", str(port))
            options = ("--fabric", "congested")
            said = saying("np_cnp_sent", *command)
            servers.append(nodes.start(1, *said, options=options))
            nodes.until_listening(servers[-1], 90, port)
            said = saying("rp_cnp_handled", *command, ADDRESSES[1])
            clients.append(nodes.start(0, *said, options=options))
        both = [measuring(client, "ib_write_bw") for client in clients]
        strike(*both)
        time.sleep(MEASURED_S)  # both at the same time
        strike(*both)
        strike(*both)
        outputs = [one.communicate(timeout=90)[0] for one in (*clients, *servers)]
    finally:
        for one in (*clients, *servers):
            one.kill()
            one.wait()
    assert [one.returncode for one in (*clients, *servers)] == [0] * 4, outputs
    handled, sent = counters(outputs[1]), counters(outputs[3])
    assert sent["np_ecn_marked_roce_packets"] >= sent["np_cnp_sent"] > 0
    assert handled["rp_cnp_handled"] > 0
    assert sent["rp_cnp_handled"] == handled["np_cnp_sent"] == 0
    assert handled["lifespan"] == 1000
    shares = sorted(megabytes(text) for text in outputs[:2])
    print("MB/s", shares, handled, sent)
    assert shares[1] <= 4 * shares[0], "neither starves the other"
