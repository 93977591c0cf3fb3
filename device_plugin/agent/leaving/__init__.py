"""Devices and agents that leave: allocatable is lowered before."""
