"""What the agent reports: status, events, health, facts of its node."""
