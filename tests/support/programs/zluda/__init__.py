"""The cases of ZLUDA's own tests."""
