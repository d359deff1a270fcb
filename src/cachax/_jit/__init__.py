"""`jit` and its relatives: which values a function uses, and how they get into and out
of its compiled programs.

Start with `call.py`: it is the one path that every call takes.
"""
