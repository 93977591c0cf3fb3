"""Two engines on one wire, their peers, packet captures and a fuzzer of packets."""
