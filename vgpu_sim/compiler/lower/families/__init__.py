"""The families, one module each: ``FORMS`` are the PTX forms that are lowered to their
instructions.
"""
