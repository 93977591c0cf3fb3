"""The families, one module each: ``FORMS`` are the PTX forms that become their instructions."""
