"""Objects of clients: queue pairs, completion queues, memory regions and others."""
