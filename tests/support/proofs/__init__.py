"""What is read and proved from compiled text and objects."""
