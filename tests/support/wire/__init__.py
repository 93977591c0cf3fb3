"""Two engines on one wire, their peers, captures and a fuzzer of packets."""
