"""References of what is right, which import nothing of the product."""
