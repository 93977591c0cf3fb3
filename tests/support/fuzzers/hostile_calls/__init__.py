"""Calls every function of the client libraries with hostile arguments.

``caller`` is the process that makes the calls, and may crash. ``campaign`` starts it again and again,
and watches that nothing else is affected: ``neighbour`` is a program of another owner.
"""
