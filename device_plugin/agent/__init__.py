"""Makes the node match its GPU objects, and reports the node's state in their status."""
