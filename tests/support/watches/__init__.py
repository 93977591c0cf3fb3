"""Plugins that watch what each test costs and leaves behind."""
