"""The events of reads: values computed, found, dropped."""

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._compat import current_trace
from .._core.computed import MISSING, Computed
from .._core.fields import instance_dict
from .._core.levels import traces_in
from .._core.memo import Key, Memo, memos
from .._core.property import cached_property
from .._core.values_read import is_tracing_a_body
from .._jit.vmap import BatchKey
from .._watch import Wrap
from .causes import why_inline
from .events import What, bytes_of, where_now
from .journal import Journal, is_traced
from .one_process import warn_if_in_one_process

wait_for: Callable[[Any], Any] = jax.block_until_ready


class Reads:
    """Wraps the methods that a read goes through."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._doing = journal.doing
        self._clock = journal.clock
        self._add = journal.add
        self._fields: dict[tuple[int, Key], dict[str, int]] = {}

    def wraps(self) -> dict[tuple[type, str], Wrap]:
        return {
            (cached_property, "__get__"): self._get,
            (Computed, "read"): self._read,
            (Computed, "_read_original"): self._read_original,
            (Computed, "_compute"): self._compute,
            (Computed, "evaluate"): self._evaluate,
            (Computed, "_found"): self._found,
            (Memo, "forget"): self._forget,
        }

    def _get(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get(key: Any, instance: Any, owner: Any = None) -> Any:
            if instance is not None:
                self._note_hit(key, instance)
            return original(key, instance, owner)

        return get

    def _read(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(key: Computed, obj: Any) -> Any:
            # A value that is read to be passed in is counted when it is passed in.
            providing = self._doing.gathers or any(self._doing.had_provider[-1:])
            if not isinstance(key, cached_property) and not providing:
                self._note_hit(key, obj)
            return original(key, obj)

        return read

    def _read_original(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A body that is followed reads a value of the copy that it has."""

        def read(key: Computed, obj: Any, known: Any) -> Any:
            if known is MISSING and isinstance(key, cached_property):
                self._note_hit(key, obj)
            return original(key, obj, known)

        return read

    def _note_hit(self, key: Computed, obj: Any) -> None:
        memo = memos.get(id(obj))
        if memo is None or memo() is not obj or not memo.holds(obj):
            return
        value = memo.get(key, MISSING)
        if value is not MISSING and not is_traced(value):
            self._journal.note_edge(key.of(obj))
            self._add(What.HIT, key.of(obj), obj=obj, bytes=bytes_of(value))

    def _compute(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compute(key: Computed, obj: Any, memo: Memo) -> Any:
            has_provider = memo.provider is not None
            if has_provider:
                self._journal.read_at[key] = where_now()
            self._doing.had_provider.append(has_provider)
            try:
                return original(key, obj, memo)
            finally:
                self._doing.had_provider.pop()

        return compute

    def _evaluate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(key: Computed, obj: Any, inputs: Any) -> Any:
            if self._is_one_of_a_batch(key):
                return original(key, obj, inputs)
            if is_tracing_a_body() and current_trace() in traces_in(obj):
                return original(key, obj, inputs)  # an object of that trace
            where = (
                self._journal.read_at.get(key) if self._doing.gathers else where_now()
            )
            warn_if_in_one_process(f"{key.of(obj)} is computed", obj)
            was_provided = any(self._doing.had_provider[-1:])
            self._journal.note_edge(key.of(obj))
            self._doing.names.append(key.of(obj))
            self._doing.keys.append(key)
            start = self._clock.enter()
            try:
                value, uses = original(key, obj, inputs)
                if not is_traced(value):
                    wait_for(value)
            except BaseException:
                self._clock.leave(start)
                raise
            finally:
                self._doing.names.pop()
                self._doing.keys.pop()
            about = self._clock.leave(start)
            about |= {"where": where, "start": start, "bytes": bytes_of(value)}
            if is_traced(value) or traces_in(obj):
                calls = self._doing.calls
                why = why_inline(obj, was_provided, calls[-1].name if calls else "")
                if not self._doing.for_new_objects:  # each call has an event for those
                    self._add(What.INLINE, key.of(obj), why=why, **about)
            else:
                self._journal.note_got(key, obj)
                used = (
                    [] if uses is None else [inputs.arrays[i] for i in uses.positions]
                )
                about |= {"obj": obj, "digest": _digest((value, used))}
                why = self._why_again(key, obj)
                self._add(What.COMPUTED, key.of(obj), why=why, **about)
            return value, uses

        return evaluate

    def _is_one_of_a_batch(self, key: Computed) -> bool:
        """Whether this is the value of one example of a batch that is computed."""
        doing = self._doing.keys
        return (
            bool(doing) and isinstance(doing[-1], BatchKey) and doing[-1].source is key
        )

    def _why_again(self, key: Key, obj: Any) -> str:
        """What has changed since the value was computed for this object."""
        fields = {name: id(x) for name, x in _fields(obj).items()}
        slot = (self._journal.number(obj), key)
        before = self._fields.get(slot)
        self._fields[slot] = fields
        if before is None:
            return ""
        changed = sorted(n for n in fields if fields[n] != before.get(n))
        if not changed:
            return "it was cleared, or can't be cached"
        names = ", ".join(changed)
        self._add(What.DROPPED, key.of(obj), obj=obj, why=f"{names} was assigned")
        return f"a field was assigned: {names}"

    def _found(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def found(key: Computed, obj: Any, record: Any, inputs: Any) -> Any:
            value = original(key, obj, record, inputs)
            self._journal.note_got(key, obj)
            self._add(
                What.KNOWN,
                key.of(obj),
                obj=obj,
                bytes=bytes_of(value),
                why="the arrays it came from are the same",
            )
            return value

        return found

    def _forget(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def forget(memo: Memo, key: Key) -> None:
            obj = memo()
            if memo.get(key, MISSING) is not MISSING:
                warn_if_in_one_process(f"{key.of(obj)} is cleared", obj)
                self._add(What.DROPPED, key.of(obj), obj=obj, why="cleared")
            original(memo, key)

        return forget


def _fields(obj: Any) -> dict[str, Any]:
    return instance_dict(obj, "__dict__") if type(obj).__dictoffset__ else {}


def _digest(value: Any) -> str:
    """A hash of the contents of a value, to find values that are computed again."""
    found = hashlib.blake2b(digest_size=8)
    for leaf in jax.tree.leaves(value):
        try:
            found.update(np.asarray(leaf).tobytes())
        except Exception:  # a PRNG key, or not an array
            found.update(repr(leaf).encode())
    return found.hexdigest()
