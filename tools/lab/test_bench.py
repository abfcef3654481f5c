# SPDX-License-Identifier: GPL-2.0
"""What results of boots are kept."""

import re
import threading

import pytest

from . import bench, bench_run, cache, say
from .test_gate import weighed


@pytest.fixture
def step(tmp_path, monkeypatch):
    """Makes steps, each of which adds its name to `step.made`."""
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))

    def make(name, inputs="kernel", fails=False):
        def content():
            if fails:
                raise say.LabError("no")
            make.made.append(name)
            return name

        return bench.Step(name, tmp_path / f"{name}.json", [inputs], content)

    make.made = []
    return make


def test_what_was_measured_of_the_same_is_kept(step):
    for _ in range(2):
        assert step("a").result().read_text() == "a"
    assert step.made == ["a"]
    about = bench.known(step("a").path)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d$", about["began"]) and about["commit"]


def test_other_inputs_or_a_lost_file_are_measured_again(step):
    step("a").result()
    step("a", "another kernel").result()
    assert step.made == ["a", "a"]
    step("a", "another kernel").path.unlink()
    assert not step("a", "another kernel").kept()
    step("a", "another kernel").result(again=True)
    assert len(step.made) == 3


def test_a_measurement_that_fails_takes_away_no_result(step):
    step("a").result()
    with pytest.raises(say.LabError):
        step("a", fails=True).result(again=True)
    assert step("a").kept()


def test_two_at_once_do_not_measure_the_same(step, monkeypatch):
    begun, waits = threading.Event(), threading.Event()
    monkeypatch.setattr(say, "note", lambda text: waits.set())

    def slow():
        begun.set()
        waits.wait(10)
        return "slow"

    one = bench.Step("a", step("a").path, ["kernel"], slow)
    thread = threading.Thread(target=one.result)
    thread.start()
    begun.wait(10)
    assert step("a").result().read_text() == "slow"
    thread.join()
    assert waits.is_set() and not step.made


def test_headlines_and_tiles_are_of_the_null_call():
    ours, base = weighed(0.5), weighed(1)
    assert bench_run.headline(ours, base)[0].split() == "null call 0.500 × C's instructions, 0.500 × its locked operations".split()
    assert bench_run.tiles(ours, base)[0][0] == "0.500 × C"
