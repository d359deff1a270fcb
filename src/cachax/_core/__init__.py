"""Cached values: what they depend on, where they are kept, how they are computed.

Nothing here knows about `jit` calls; `cachax._jit` builds on this package.
"""
