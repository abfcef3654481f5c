# SPDX-License-Identifier: GPL-2.0
"""Which runs on the C driver are made again."""

import types

import pytest

from . import guest, kernel, recall


@pytest.fixture
def run_on(tmp_path, monkeypatch):
    """Runs a job in the guest of a kernel: what came of it. `run_on.runs` are those that were made, `run_on.program` is the job's."""
    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(guest, "_modules", lambda kernel, job: {})

    def run(name="um-1", status=0, problems=(), **options):
        built = types.SimpleNamespace(folder=tmp_path / name, guest=kernel.GUESTS["um"])
        job = guest.Job(argv=["/lab/contract", "run"], driver="c", files={"/lab/contract": run.program}, **options)

        def attempt():
            run.runs.append(name)
            return guest.Result(status, "2 passed, 0 failed\n", {"results.jsonl": b"\0record"}, [], list(problems))

        return recall.run(built, job, attempt)

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
