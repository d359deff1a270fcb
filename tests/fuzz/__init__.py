"""Random programs, run with cachax and with plain properties under `jax.jit`.

`worlds` has the classes and functions of both sides, `machine` the operations that a
program is made of, `once` the model of how often a body may run, `programs` generates,
compares and shrinks. `python -m fuzz --help` runs many.
"""
