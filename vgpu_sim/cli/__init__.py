"""The ``tessera`` command line: one module per verb, loaded only when that verb is used."""
