"""The last observed state of the cluster, and the watches that keep it up to date."""
