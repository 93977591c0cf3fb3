"""Write the part of a client library that follows from a list of its functions."""
