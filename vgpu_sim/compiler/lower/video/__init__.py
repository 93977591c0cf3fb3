"""Video instructions: scalar and packed."""
