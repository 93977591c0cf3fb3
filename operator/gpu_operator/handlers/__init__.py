"""The live side: kopf's watches fill a store and enqueue keys; workers reconcile them."""
