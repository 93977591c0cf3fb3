"""Clients of the daemons' administration sockets: gpud, hcad and linkd."""
