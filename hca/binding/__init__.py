"""The engine as Python calls it, and what it needs: addresses, links, sockets of a wire."""
