"""Pure values: what gpud has, and how slices map to extended resources."""
