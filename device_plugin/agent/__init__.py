"""Makes the node what its GPU objects say, and says in their status what it is."""
