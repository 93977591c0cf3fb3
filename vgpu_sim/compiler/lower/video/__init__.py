"""The lowering of scalar and packed video instructions."""
