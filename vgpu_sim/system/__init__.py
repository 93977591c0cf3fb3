"""The operating system as daemons use it: processes, peers, sockets, and the pace of clients."""
