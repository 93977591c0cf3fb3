"""Manifests from values. No decisions, no client."""
