"""The agent's reports: GPU status, events, health, and facts about its node."""
