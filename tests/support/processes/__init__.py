"""The product's processes as tests start them, and stand-ins for third-party ones."""
