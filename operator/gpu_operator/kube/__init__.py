"""Access to Kubernetes: actions as values, a port, and the adapter that sends requests.

No other package of the operator has a Kubernetes client.
"""
