# SPDX-License-Identifier: GPL-2.0
"""The records of the C driver: complete, and taken for a run of the suite where the driver is missing; and the runs that are made again."""

import json
import types

import oracle
import pytest
from lab import gate, guest, kernel
from lab.run import Tally

NAMES = ["a::one", "death_races::two", "b::three", "b::four", "b::five"]
RECORD = {"a::one": "passed", "death_races::two": "differs", "b::three": "skipped", "b::four": "differs"}


@pytest.mark.parametrize("selection, output, good", [
    ({}, "a::one ok\ndeath_races::two expected difference on c\nb::three skipped\nb::four expected difference on c\nb::five FAILED\n"
         "3 passed, 1 failed\n", False),
    ({"part": 2}, "death_races::two expected difference on c\n1 passed, 0 failed\n", True),
    ({"part": 1, "half": 1}, "a::one ok\nb::four expected difference on c\n2 passed, 0 failed\n", True),
    ({"part": 1, "half": 2}, "b::three skipped\nb::five FAILED\n0 passed, 1 failed\n", False),
])
def test_a_record_counts_as_a_run(selection, output, good):
    result = oracle.recorded(RECORD, oracle.selected(NAMES, **selection))
    assert (result.output, result.good) == (output, good)


def test_a_result_that_differs_from_the_record_fails_with_the_command():
    kept = {"a::one": "passed", "a::two": "differs", "a::gone": "passed"}
    wrong = oracle.different(kept, {"a::one": "passed", "a::two": "failed", "a::new": "passed"})
    assert wrong == ["a::gone: not run, recorded: passed", "a::new: passed, recorded: nothing", "a::two: failed, recorded: differs"]
    oracle.agree(tally := Tally(), "contract", oracle.CONTRACT, wrong)
    assert tally.rows == [("contract: as recorded", 0, 1)]
    oracle.agree(tally := Tally(), "contract", oracle.CONTRACT, [])
    assert tally.rows == [("contract: as recorded", 1, 0)]


class WithoutC:
    has_c = False


def test_a_kernel_without_the_driver_gives_way_to_the_records(monkeypatch):
    monkeypatch.setattr(kernel, "build", lambda name: WithoutC)
    lines = oracle.scene(tally := Tally(), "logs.txt", "logs of a scene", None, None)
    assert lines == oracle.read("logs.txt") and len(lines) > 100 and tally.rows == []
    names = [*oracle.contracted()]
    monkeypatch.setattr(oracle, "tests", lambda: names)
    for part in oracle.contract.PARTS:
        oracle.suite(tally, part)
    assert [failed for _, _, failed in tally.rows] == [0, 0, 0]
    assert 0 < sum(passed for _, passed, _ in tally.rows) < len(names)
    assert gate.weighed("c") == json.loads(gate.OF_C.read_text())


def test_the_records_name_their_origin():
    for path in sorted(oracle.FOLDER.glob("*.t*")):
        about = path.read_text().splitlines()[0]
        for word in ("Linux 7.3", "C driver of linux-source-7.3_", "(um)", ", tests "):
            assert word in about, path


def test_all_operations_of_the_gate_are_recorded():
    counts, recorded = json.loads(gate.OF_C.read_text()), gate.read()
    assert counts["counts"].keys() == recorded["ratios"].keys() and counts["memory"].keys() == recorded["memory"].keys()
    assert counts["traced"] and counts["kept"]


@pytest.fixture
def run_on(tmp_path, monkeypatch):
    """Runs a job in the guest of a kernel, and returns the result. `run_on.runs` are the runs that were made, `run_on.program` is the job's."""
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(guest, "_modules", lambda kernel, job: {})

    def run(name="um-1", status=0, problems=(), **options):
        monkeypatch.setattr(kernel, "build", lambda _: types.SimpleNamespace(folder=tmp_path / name, guest=kernel.GUESTS["um"]))
        job = guest.Job(argv=["/lab/contract", "run"], driver="c", files={"/lab/contract": run.program}, **options)

        def attempt(_title, _name, _job):
            run.runs.append(name)
            return guest.Result(status, "2 passed, 0 failed\n", {"results.jsonl": b"\0record"}, [], list(problems))

        monkeypatch.setattr(oracle, "run", attempt)
        return oracle.recalled("contract", "um", job)

    run.runs, run.program = [], tmp_path / "contract"
    run.program.write_text("one")
    return run


def test_the_same_is_run_once_and_tells_the_same(run_on, capsys):
    first, second = run_on(), run_on()
    assert len(run_on.runs) == 1
    assert (first.good, first.output, first.files) == (second.good, second.output, second.files)
    assert "the same guest passed this on" in capsys.readouterr().out


def test_another_program_kernel_or_word_is_run(run_on):
    run_on()
    run_on(name="um-2")
    run_on(boot=("lsm=selinux",))
    run_on.program.write_text("another")
    run_on()
    assert len(run_on.runs) == 4


def test_what_was_not_good_is_run_again(run_on):
    assert not run_on(status=1).good
    assert not run_on(problems=["WARNING: "]).good
    assert run_on().good and run_on().good
    assert len(run_on.runs) == 3
