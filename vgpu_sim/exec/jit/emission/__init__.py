"""The emitter for families: text, values, masks, memory and thread indices of one function
version.
"""
