"""Pure controllers: they read the last observed state of the cluster, and return actions on it."""
