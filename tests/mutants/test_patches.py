"""The mutants are in order: each still applies, and names tests that exist. ``python -m tests.mutants`` tries them."""

from __future__ import annotations

import ast

import pytest

from tests.campaign.schedule import weights

from .patches import ROOT, ROWS, SELF_CHECKS, WITHOUT, Change, DoesNotApply, Mutant, read_mutants
from .trial import STILL_WORKS

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_it_applies_and_what_it_makes_can_be_read(mutant, tmp_path):
    for file in {change.file for change in mutant.changes}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    mutant.apply(tmp_path)
    for file in {change.file for change in mutant.changes}:
        text = (tmp_path / file).read_text()
        assert text != (ROOT / file).read_text()
        if file.endswith(".py"):
            ast.parse(text, file)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_campaign_knows_its_schedule(mutant):
    assert weights(mutant.campaign or "all", mutant.redis)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_it_says_what_it_breaks_and_names_tests_that_exist(mutant):
    assert mutant.what.endswith(".")
    assert 20 < len(mutant.what) < 200
    assert mutant.tests
    for test in (*mutant.tests, STILL_WORKS):
        path, _, name = test.partition("::")
        functions = {
            node.name
            for node in ast.walk(ast.parse((ROOT / path).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name.partition("[")[0] in functions, test


def test_every_row_has_a_mutant_or_a_reason_for_none():
    having = {mutant.row for mutant in MUTANTS} - {""}
    assert having <= set(ROWS)
    assert [row for row in ROWS if row not in having | WITHOUT.keys()] == []
    assert having & WITHOUT.keys() == set()
    assert {mutant.id for mutant in MUTANTS if not mutant.row} == set(SELF_CHECKS)


def test_a_checkout_that_has_changed_is_told_and_left_as_it_is(tmp_path):
    (tmp_path / "one.py").write_text("a = 1\n")
    (tmp_path / "two.py").write_text("b = 1\nb = 1\n")
    mutant = Mutant("-", [], [Change("one.py", "a = 1", "a = 2"), Change("two.py", "b = 1", "b = 2")])
    with pytest.raises(DoesNotApply, match=r"two.py has this text 2 times instead of once"):
        mutant.apply(tmp_path)
    assert (tmp_path / "one.py").read_text() == "a = 1\n"
    with pytest.raises(DoesNotApply, match=r"no file gone.py"):
        Mutant("-", [], [Change("gone.py", "a", "b")]).apply(tmp_path)


def test_changes_of_one_file_come_one_after_the_other(tmp_path):
    (tmp_path / "one.py").write_text("a = 1\n")
    Mutant("-", [], [Change("one.py", "1", "2"), Change("one.py", "a = 2", "b = 3")]).apply(tmp_path)
    assert (tmp_path / "one.py").read_text() == "b = 3\n"
