"""What runs the controllers: watches fill a store and enqueue keys, a worker acts on them."""
