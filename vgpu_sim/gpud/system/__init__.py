"""The operating system as gpud uses it: processes, peers and sockets with ancillary data."""
