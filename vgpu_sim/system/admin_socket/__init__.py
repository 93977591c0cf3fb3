"""Administration of a daemon: JSON lines over a socket that its owner alone may open."""
