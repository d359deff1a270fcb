"""`cachax.agree` on real processes: a mistake is an error in all of them."""

from .mistakes import MISTAKES, SHORT, TIMEOUT
from .run import all_well, run

MESSAGES = {
    "first_read_in_one_process": ["State.mean(1, ", "State.solution(1, "],
    "cleared_in_one_process": ["run World.use.<locals>.use(", "compute State."],
    "called_in_one_process": ["with solution, total", "leave cachax.agree"],
    "made_with_other_static_fields": ["mean(1, float32[4]", "mean(2, float32[4]"],
    "an_error_in_one_process": ["raise ValueError: the local data are bad"],
    "too_late": [f"process 1: nothing within {SHORT:g} s"],
}


def test_every_mistake_is_an_error_in_every_process() -> None:
    ended = run("processes.mistakes:made", 2)
    all_well(ended)
    assert len(MISTAKES) >= 10
    for mistake in MISTAKES:
        name = mistake.__name__
        results = [each.results[name] for each in ended]
        own_error = {"ValueError"} if name == "an_error_in_one_process" else set()
        kinds = {kind for kind, _, _ in results}
        assert kinds - own_error == {"DisagreementError"}, (name, kinds)
        for kind, message, seconds in results:
            assert seconds < TIMEOUT, name
            if kind == "DisagreementError":
                words = ["process 0: ", "process 1: ", "mistakes.py:"]
                missing = [
                    x for x in words + MESSAGES.get(name, []) if x not in message
                ]
                assert missing == [], (name, message)
    before, now = ended[0].results["left on the board"]
    assert before == 0
    assert 0 < now < 3 * 64


def test_the_watcher_says_why_a_process_waits_and_which_programs_differ() -> None:
    ended = run("processes.mistakes:watched", 2)
    all_well(ended)
    for each in ended:
        warned = "\n".join(each.results["warned"])
        for what in ("mean is computed at", "use is called at", "mean is cleared at"):
            assert what in warned
        assert "inside `if jax.process_index() >= 0`" in warned
        assert "cachax.warm(obj)" in warned
        assert "Nothing has happened for 1 s" in each.errors
        assert "process 0: 1 decisions, the last was to compute State." in each.errors
        assert "process 1: 0 decisions" in each.errors
        assert each.errors.count("Nothing has happened") == 1
        for words in ("process 0: compute State.", "State.mean(", "State.total("):
            assert words in each.results["raised"]
        assert each.results["raised"] in each.errors


def test_the_environment_variable_switches_it_on() -> None:
    on = {"CACHAX_AGREE": "timeout=20"}
    for each in run("processes.mistakes:by_environment", 2, environment=on):
        assert "process 0: compute State." in each.results["raised"]
    first, second = run("processes.mistakes:until_the_end", 2, environment=on)
    assert "process 1: end the program" in first.results["raised"]
    assert second.results["raised"] == "nothing"
