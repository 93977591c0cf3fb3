"""The web application: routes, templates, the stream of changes, and access control."""
