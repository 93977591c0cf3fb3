"""Random kernels run three ways, and what differs made smaller."""
