"""Cached properties that are computed once and right under JAX."""

from ._cached import cached_property as cached_property
from ._errors import CachaxError as CachaxError
from ._errors import LeakedTracerError as LeakedTracerError
from ._errors import LiftError as LiftError
from ._errors import NotKeptWarning as NotKeptWarning
from ._errors import NowhereToStoreError as NowhereToStoreError
from ._errors import StaleValueError as StaleValueError
from ._errors import UnhashableArgumentError as UnhashableArgumentError
from ._errors import UnhashableValueError as UnhashableValueError
from ._errors import UnknownPropertyError as UnknownPropertyError
from ._function import cache as cache
from ._jit import jit as jit
from ._lift import lift as lift
from ._method import cached_method as cached_method
from ._verbs import cached as cached
from ._verbs import clear as clear
from ._verbs import is_cached as is_cached
from ._verbs import preset as preset
from ._verbs import warm as warm
from ._verify import verify as verify
from ._vmap import vmap as vmap

__version__ = "0.1.0"
