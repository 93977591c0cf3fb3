"""Policy: which peers a queue pair may have, under which rules, and what was denied."""
