"""An evaluator of PTX that runs one thread at a time."""
