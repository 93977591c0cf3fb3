"""Bulk copies: cp.async.bulk, cp.reduce.async.bulk and their forms for tensors."""
