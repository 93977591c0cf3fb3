"""Compilation ahead: ``python -m tessera_torch.warm [--into FOLDER] [--model FILE]``."""
