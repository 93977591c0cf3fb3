"""Explains why ResourceClaims wait, beyond the scheduler's own explanations (ADR 89). Pure."""
