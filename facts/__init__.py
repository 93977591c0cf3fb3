"""The facts that a user's pool sets for its GPUs, in one document that all components pass on."""
