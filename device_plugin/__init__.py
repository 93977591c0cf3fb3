"""The node agent: kubelet device plugin, CDI files and GPU objects, as a client of gpud."""
