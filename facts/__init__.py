"""What a user's pool says of its GPUs and programs read: one document, the same at every hop."""
