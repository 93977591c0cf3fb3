"""``tessera doctor`` and ``tessera support-bundle``: what works here, and what to change."""
