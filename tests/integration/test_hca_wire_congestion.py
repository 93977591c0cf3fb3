"""Congestion between two network namespaces: the link marks what is above its rate, and senders yield."""

import re
import shutil
import subprocess

import pytest
from verbs_tools import needed
from wire_nodes import ADDRESSES, Nodes, needs_namespaces

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(shutil.which("nft") is None, reason="NOT RUN: no nft: apt-get install nftables"),
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
COUNTERS = "/sys/class/infiniband/tessera_0/ports/1/hw_counters"
# The files are written every second: what is waited for comes with the next time.
SAY = (
    "for i in $(seq 100); do"
    ' test "$(cat {folder}/{awaited})" != 0 && break; sleep 0.1; done;'
    " for name in {folder}/*; do echo ${{name##*/}}=$(cat $name); done"
)


def saying(awaited: str, *command: str) -> tuple[str, ...]:
    """Return what runs a program and then says its device's counters."""
    script = SAY.format(folder=COUNTERS, awaited=awaited)
    return ("sh", "-c", f"{' '.join(command)} && {script}")


def counters(said: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"^([a-z_]+)=(\d+)$", said, re.M)}


def megabytes(said: str) -> float:
    """Return the average of perftest's table."""
    (row,) = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+) ", said, re.M)
    return float(row)


@pytest.fixture
def nodes(tmp_path):
    with Nodes(tmp_path) as made:
        done = subprocess.run(
            [*made.inside(1), "nft", "-f", "-"], input=RULES, text=True, capture_output=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"NOT RUN: this kernel marks nothing: {done.stderr}")
        yield made


@needed("ib_write_bw")
def test_two_flows_through_a_link_that_marks_have_shares_of_it(nodes):
    """Each is of a fabric, and so of an engine, of its own: only the marks tell them."""
    command = ("ib_write_bw", "-F", "-D", "4")
    server = nodes.start(1, *saying("np_cnp_sent", *command, "-q", "2"))
    nodes.until_listening(server, 60)
    client = nodes.start(0, *saying("rp_cnp_handled", *command, "-q", "2", ADDRESSES[1]))
    there = client.communicate(timeout=90)[0]
    here = server.communicate(timeout=90)[0]
    assert (client.returncode, server.returncode) == (0, 0), f"{there}\n{here}"
    sent, handled = counters(here), counters(there)
    assert sent["np_ecn_marked_roce_packets"] >= sent["np_cnp_sent"] > 0
    assert 0 < handled["rp_cnp_handled"] <= sent["np_cnp_sent"]
    assert sent["rp_cnp_handled"] == handled["np_cnp_sent"] == 0
    assert handled["lifespan"] == 1000
    assert megabytes(there) < 200, "a tenth of what the same link carries unmarked"
