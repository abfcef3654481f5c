# SPDX-License-Identifier: GPL-2.0
"""Sentences that `make check` refuses, in documents and in comments."""

import pytest

from . import prose, say


@pytest.fixture(autouse=True)
def vale():
    try:
        prose.vale()
    except say.LabError as error:
        pytest.skip(f"Vale cannot be had: {error}")


GOOD = "The driver returns `EINVAL`. What does the caller read then? A node has one owner, and a handle names it.\n"
PLANTED = {
    "software is no person: 'knows'": "The driver knows its callers.",
    "not the field's word: 'in vain'": "The thread waits in vain.",
    "a clause is the subject: 'What cannot be reached is'": "What cannot be reached is refused.",
    "a sentence has more than 30 words": "A thread " + "that waits " * 15 + "returns.",
}


@pytest.mark.parametrize("words", PLANTED)
def test_a_planted_sentence_of_each_kind_is_found_in_a_document(tmp_path, words):
    (tmp_path / "README.md").write_text(f"# Title\n\n{GOOD}\n{PLANTED[words]}\n\n```sh\necho it knows\n```\n")
    assert prose.complaints(tmp_path) == [f"README.md:5: {words}"]


@pytest.mark.parametrize("words", [words for words in PLANTED if "30" not in words])
@pytest.mark.parametrize("name, comment", [("a.rs", "/// "), ("a.c", " * "), ("a.py", "# ")])
def test_a_planted_sentence_is_found_in_a_comment(tmp_path, words, name, comment):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / name).write_text(f"knows = 1;\n{comment}{GOOD}{comment}{PLANTED[words]}\n")
    assert prose.complaints(tmp_path) == [f"tools/{name}:3: {words}"]
