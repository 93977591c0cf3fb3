"""The product's processes as tests start them, and stand-ins for what is not ours."""
