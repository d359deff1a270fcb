"""One of the processes: `python -m processes.worker module:function rank count port
files`. Writes what the function yields, and every decision before it is carried out."""

import gc
import importlib
import json
import sys

import jax


def main() -> None:
    program, rank, count, port, files = sys.argv[1:]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(address, int(count), int(rank))
    module, _, name = program.partition(":")
    function = getattr(importlib.import_module(module), name)
    gc.collect()
    gc.freeze()  # to collect all of JAX at every `gc.collect` takes a tenth of a second
    with (
        open(f"{files}.results", "w") as results,
        open(f"{files}.decisions", "w", buffering=1) as decisions,
    ):
        for result in function(decisions):
            results.write(json.dumps(result) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
