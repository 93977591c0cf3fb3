"""MIG geometry and planning as pure data: boards, profiles, placements and plans.

Standard library only.
"""
