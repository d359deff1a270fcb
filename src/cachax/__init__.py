"""Cached properties for JAX objects: computed once, and correct under every
transformation."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import testing as testing
    from ._check.agree import agree as agree
    from ._check.verify import verify as verify
    from ._core.function import cache as cache
    from ._core.method import cached_method as cached_method
    from ._core.property import cached_property as cached_property
    from ._errors import CachaxError as CachaxError
    from ._errors import DisagreementError as DisagreementError
    from ._errors import DroppedValueWarning as DroppedValueWarning
    from ._errors import LeakedTracerError as LeakedTracerError
    from ._errors import LiftError as LiftError
    from ._errors import NotKeptWarning as NotKeptWarning
    from ._errors import NowhereToStoreError as NowhereToStoreError
    from ._errors import OneProcessWarning as OneProcessWarning
    from ._errors import PresetError as PresetError
    from ._errors import StaleValueError as StaleValueError
    from ._errors import UnhashableArgumentError as UnhashableArgumentError
    from ._errors import UnhashableValueError as UnhashableValueError
    from ._errors import UnknownPropertyError as UnknownPropertyError
    from ._errors import UsageError as UsageError
    from ._jit.jit import jit as jit
    from ._jit.lift import lift as lift
    from ._jit.verbs import cached as cached
    from ._jit.verbs import clear as clear
    from ._jit.verbs import is_cached as is_cached
    from ._jit.verbs import preset as preset
    from ._jit.verbs import warm as warm
    from ._jit.vmap import vmap as vmap
    from ._report.dropped import warn_dropped as warn_dropped
    from ._report.explain import Explanation as Explanation
    from ._report.explain import explain as explain
    from ._report.held import memory as memory
    from ._report.record import record as record
    from ._report.report import Report as Report
else:
    # The same, on first use: `cachax lint` works where JAX is not installed.
    _HOMES = {
        "_core.property": ["cached_property"],
        "_errors": [
            "CachaxError",
            "DroppedValueWarning",
            "DisagreementError",
            "LeakedTracerError",
            "LiftError",
            "NotKeptWarning",
            "NowhereToStoreError",
            "PresetError",
            "OneProcessWarning",
            "StaleValueError",
            "UnhashableArgumentError",
            "UnhashableValueError",
            "UnknownPropertyError",
            "UsageError",
        ],
        "_report.dropped": ["warn_dropped"],
        "_report.explain": ["Explanation", "explain"],
        "_core.function": ["cache"],
        "_jit.jit": ["jit"],
        "_jit.lift": ["lift"],
        "_core.method": ["cached_method"],
        "_report.held": ["memory"],
        "_report.record": ["record"],
        "_report.report": ["Report"],
        "_jit.verbs": ["cached", "clear", "is_cached", "preset", "warm"],
        "_check.agree": ["agree"],
        "_check.verify": ["verify"],
        "_jit.vmap": ["vmap"],
    }
    __all__ = [name for names in _HOMES.values() for name in names]

    def __getattr__(name):
        from importlib import import_module

        if name == "testing":
            return import_module(".testing", __name__)
        for home, names in _HOMES.items():
            if name in names:
                module = import_module(f".{home}", __name__)
                globals().update({name: getattr(module, name) for name in names})
                if home != "_errors":
                    _look_at_the_environment()
                return globals()[name]
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}",
            name=name,
            obj=import_module(__name__),
        )

    def _look_at_the_environment():
        import os

        variable = os.environ.get("CACHAX_AGREE", "0")
        if variable not in ("", "0") and "_environment" not in globals():
            from ._check.agree import FromEnvironment

            globals()["_environment"] = FromEnvironment(variable)

    def __dir__():
        return sorted({*globals(), *__all__, "testing"})
