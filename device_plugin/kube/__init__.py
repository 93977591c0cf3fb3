"""The node agent's view of the cluster: its own GPU objects, and events on users' pods."""
