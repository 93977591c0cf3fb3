"""What PyTorch checks of a call before it computes, and the words of its errors."""
