"""MIG geometry and planning: boards, profiles, placements and plans as pure data. Standard
library only.
"""
