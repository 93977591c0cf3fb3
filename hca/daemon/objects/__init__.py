"""Objects of clients: queue pairs, completion queues, memory regions and what belongs to them."""
