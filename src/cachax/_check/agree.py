"""Compare the decisions of the processes of a program."""

import atexit
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import jax

from .._compat import has_processes
from .._core.computed import Computed
from .._errors import DisagreementError, EnvironmentVariableError
from .._jit.call import Function
from .._watch import Wrap, watching
from .._where import where_now
from .board import Board
from .decisions import Decision, deciding
from .differing import differing
from .watcher import Watcher

ENTER, LEAVE = "enter cachax.agree", "leave cachax.agree"
_GRACE = 5.0
"""Seconds in which the first process must say what came of a comparison."""
_BLOCK = 64
"""Decisions whose lines are deleted at once."""


@contextmanager
def agree(*, timeout: float = 60.0, every: float | None = None) -> Iterator[None]:
    """Compare the decisions of all processes inside this context.

    JAX needs every process to launch the same programs in the same order. What cachax
    launches for an object depends on what was done with it before. If an object was
    read, cleared or rebuilt from new arrays in one process only, the processes wait for
    each other and never continue, or use each other's messages. Inside this
    context, every decision (to compute a value, to run a function with the values that
    are passed in) is compared before the launch. That takes about a millisecond.

    All processes must enter and leave the context. With one process it does nothing.
    The environment variable `CACHAX_AGREE` does the same for a whole program: `1`,
    `timeout=30`, `every=10` or `every=10,timeout=300`.

    Args:
        timeout: How many seconds to wait for the decision of another process.
        every: Compare in a thread, every so many seconds, without waiting. A difference
            is written to `stderr`, and the next decision raises an error.

    Returns:
        A context manager.

    Raises:
        DisagreementError: In all processes: the decisions differ, or a process has made
            none for `timeout` seconds. The message says what each was about to do, and
            at which line.

    Example:
        >>> import cachax
        >>> with cachax.agree():
        ...     pass  # train(state)
    """
    with ExitStack() as stack:
        if has_processes() and jax.process_count() > 1 and _running.start():
            stack.callback(_running.end)
            stack.enter_context(_comparing(timeout, every))
        yield


class _Running:
    """The comparison that is under way in this process: one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_on = False
        self.count = 0

    def start(self) -> bool:
        with self._lock:
            if self._is_on:
                return False
            self._is_on = True
            self.count += 1
            return True

    def end(self) -> None:
        self._is_on = False


_running = _Running()


@contextmanager
def _comparing(timeout: float, every: float | None) -> Iterator[None]:
    board = Board(f"cachax/{_running.count}")
    if every is not None:
        with Watcher(board, every, timeout) as watcher, deciding(watcher.note):
            yield
        return
    comparison = Comparison(board, timeout)
    comparison.compare(_here(ENTER))
    if board.rank == 0 and _running.count > 1:
        Board(f"cachax/{_running.count - 1}").delete("lines")
    try:
        with deciding(comparison.compare):
            yield
    except DisagreementError:
        raise
    except BaseException as error:
        comparison.tell(_here(f"raise {type(error).__name__}: {error}"))
        raise
    comparison.compare(_here(LEAVE))


def _here(line: str) -> Decision:
    return Decision(line, where=str(where_now() or ""))


class Comparison:
    """Decisions, compared one by one."""

    def __init__(self, board: Board, timeout: float) -> None:
        self._board = board
        self._timeout = timeout
        self._number = 0
        self._last = ""
        self._lock = threading.Lock()
        self._failed: str | None = None

    def compare(self, decision: Decision) -> None:
        """Raises if a process is about to do something else."""
        with self._lock:
            if self._failed is None:
                self._failed = self._difference(decision)
            if self._failed is not None:
                raise DisagreementError(self._failed)
            self._number += 1
            self._last = str(decision)

    def tell(self, decision: Decision) -> None:
        """Without waiting for the others: this process takes no further part."""
        with self._lock:
            if self._failed is None:
                self._write(decision)
                if self._board.rank == 0:
                    alone = {0: decision}
                    self._board.write(self._key("result"), self._message(alone))

    def _difference(self, decision: Decision) -> str | None:
        """The message; None if all processes agree."""
        self._write(decision)
        if self._board.rank != 0:
            return self._result()
        found = {0: decision}
        until = time.monotonic() + self._timeout
        for rank in range(1, self._board.count):
            text = self._board.read(self._key(str(rank)), until - time.monotonic())
            if text is not None:
                found[rank] = Decision(*json.loads(text))
        message = self._compared(found)
        self._board.write(self._key("result"), message or "")
        self._tidy_up()
        return message

    def _result(self) -> str | None:
        """What the first process found."""
        waited = self._timeout + _GRACE
        message = self._board.read(self._key("result"), waited)
        if message is not None:
            return message or None
        there = self._board.read_all(self._key(""))
        self._write(_here(f"raise, because process 0 was not there after {waited:g} s"))
        found = {int(k): Decision(*json.loads(x)) for k, x in there.items()}
        return self._message(found)

    def _compared(self, found: dict[int, Decision]) -> str | None:
        alike = {(each.line, each.digest) for each in found.values()}
        if len(alike) == 1 and len(found) == self._board.count:
            return None
        return self._message(found)

    def _message(self, found: dict[int, Decision]) -> str:
        return differing(
            self._number, found, self._board.count, self._last, self._timeout
        )

    def _write(self, decision: Decision) -> None:
        text = json.dumps([decision.line, decision.digest, decision.where])
        self._board.write(self._key(str(self._board.rank)), text)

    def _key(self, name: str) -> str:
        block = self._number // _BLOCK
        return f"lines/{block}/{self._number}/{name}".removesuffix("/")

    def _tidy_up(self) -> None:
        """All have come to this decision: they have read what came of those before."""
        if self._number % _BLOCK == 1 and self._number > _BLOCK:
            self._board.delete(f"lines/{self._number // _BLOCK - 1}")


class FromEnvironment:
    """Starts with the first thing that cachax has to do: before that,
    `jax.distributed.initialize` may not have been called."""

    def __init__(self, variable: str) -> None:
        self._options = options_in(variable)
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._stack.enter_context(
            watching(
                {
                    (Computed, "evaluate"): self._before(Computed, "evaluate"),
                    (Function, "call"): self._before(Function, "call"),
                }
            )
        )

    def _before(self, cls: type, name: str) -> Wrap:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def first(*args: Any) -> Any:
                # A value may be computed without JAX, before there are processes.
                if has_processes() or cls is Function:
                    self._start()
                    return getattr(cls, name)(*args)
                return original(*args)

            return first

        return wrap

    def _start(self) -> None:
        with self._lock:
            self._stack.close()
            if has_processes() and jax.process_count() > 1 and _running.start():
                board = Board("cachax/program")
                timeout, every = self._options
                if every is None:
                    comparison = Comparison(board, timeout)
                    self._stack.enter_context(deciding(comparison.compare))
                    end = Decision("end the program")
                    atexit.register(_quietly, lambda: comparison.tell(end))
                else:
                    watcher = self._stack.enter_context(Watcher(board, every, timeout))
                    self._stack.enter_context(deciding(watcher.note))
                    atexit.register(_quietly, self._stack.close)


def _quietly(end: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the other processes may be gone
        end()


def options_in(variable: str) -> tuple[float, float | None]:
    """`timeout` and `every` as given by `CACHAX_AGREE`."""
    options: dict[str, float | None] = {"timeout": 60.0, "every": None}
    for part in variable.split(","):
        name, _, value = part.strip().partition("=")
        try:
            if name not in options and (name, value) != ("1", ""):
                raise ValueError
            if value:
                options[name] = float(value)
        except ValueError:
            raise EnvironmentVariableError("CACHAX_AGREE", variable) from None
    return options["timeout"] or 0.0, options["every"]
