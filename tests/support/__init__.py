"""Code that tests share: a package whose layers are defined in ``tests/.importlinter``."""
