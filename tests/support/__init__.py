"""What the tests share: a package whose layers are in ``tests/.importlinter``."""
