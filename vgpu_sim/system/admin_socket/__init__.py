"""Administration of a daemon: JSON lines over a socket that only its owner may open."""
