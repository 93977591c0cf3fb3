"""The node agent: kubelet device plugin, CDI and the node's GPU objects, in front of gpud."""
