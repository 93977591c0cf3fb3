"""The agent's only door to the devices: gpud's administration socket."""
