"""Flags of XLA for tests, which compile much and run little."""

from importlib.metadata import version

COMPILE_QUICKLY = ["--xla_backend_optimization_level=0"]
if (0, 7) <= tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    # A small program is compiled in 17 ms instead of 47 (JAX 0.10). Older versions have
    # nothing to switch off; newer ones end the process, as they don't know the flag.
    COMPILE_QUICKLY.append("--xla_cpu_use_fusion_emitters=false")
