# SPDX-License-Identifier: GPL-2.0
"""The results of boots that are kept."""

import re
import threading

import pytest

from . import bench, guest, say


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


@pytest.fixture
def guests(monkeypatch, tmp_path):
    """Runs that are not made: `guests.jobs`, and the `guests.result` of each."""
    class Guests:
        jobs, result = [], guest.Result(status=0, files={"symbols": b"", "count.json": b"{}"})

    def run(_built, job, _hear=None):
        Guests.jobs.append(job)
        return Guests.result

    built = type("Built", (), {"guest": type("Kind", (), {"stock": True, "name": bench.COUNTED}), "folder": tmp_path})
    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(bench.kernel, "build", lambda name: built)
    monkeypatch.setattr(bench.programs, "build_for", lambda name, crate: tmp_path / "program")
    return Guests


def test_the_c_driver_of_debian_has_a_device_and_no_binderfs(guests):
    for driver in bench.DRIVERS:
        assert bench.good(bench.Boot("a boot", driver, "$b run $words").run())["count.json"] == "{}"
    assert ["--device /dev/binder" in job.argv[-1] for job in guests.jobs] == [True, False, False]
    assert all(job.icount and "nokaslr" in job.boot for job in guests.jobs)


def test_a_boot_of_which_something_was_wrong_gives_no_figures(guests):
    guests.result.problems = ["WARNING: ..."]
    with pytest.raises(say.LabError, match="WARNING"):
        bench.good(bench.Boot("a boot", "rust", "true").run())
    guests.result = guest.Result(status=1, output="no memory", files={"symbols": b""})
    with pytest.raises(bench.Unfinished, match="no memory"):
        bench.Boot("a boot", "rust", "false").run()
