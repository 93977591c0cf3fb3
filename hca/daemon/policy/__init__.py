"""Policy: which peers a queue pair may have, with which rights, and what policy has denied."""
