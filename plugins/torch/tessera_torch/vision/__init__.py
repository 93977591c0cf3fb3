"""Reading images between their elements: interpolation, averages and sampling by a grid."""
