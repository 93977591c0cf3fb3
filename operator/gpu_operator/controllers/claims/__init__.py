"""What the scheduler does not say of ResourceClaims that wait (ADR 89). Pure."""
