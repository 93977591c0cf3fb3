"""The parts of the operating system that the daemons use: processes, peers, sockets, and rate
limits for clients.
"""
