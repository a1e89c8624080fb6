"""Every block of the README is executed, in order, in an empty folder: what it shows is what happens."""

import re

import numpy as np
import pandas as pd
from blocks import KINDS, ROOT, Page, run, session, write
from matplotlib import image

PICTURE = "reports/pictures/cross-planes.png"
PAGE = Page(ROOT / "README.md")


def test_every_block_is_of_a_kind_that_is_executed():
    assert {language for language, _ in PAGE.blocks} == set(KINDS)
    assert (len(PAGE.of("sh")), len(PAGE.files), len(PAGE.sessions)) == (2, 3, 8)


def test_the_gate_runs_the_set_up_commands_word_for_word():
    # they make virtual environments and take minutes: the gate runs them, read out of the README as here
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "$(block 1)" in gate
    assert "$(block 2)" in gate
    assert "report verification --quick" in PAGE.of("sh")[0]
    assert PAGE.of("sh")[1].rstrip().endswith("pytest -n auto")


def test_console_blocks_print_what_is_shown(tmp_path):
    for text in PAGE.files:
        write(text, tmp_path)
    assert sum(run(text, tmp_path) for text in PAGE.of("console")) == 7


def test_python_sessions_print_what_is_shown(tmp_path, monkeypatch):
    # one reader, one interpreter: what an earlier block defines a later one uses
    monkeypatch.chdir(tmp_path)
    names = {}
    for text in PAGE.sessions:
        attempted, failed = session(text, "README.md", names)
        assert attempted > 0
        assert failed == 0
    # and the picture that is shown is the one that is drawn
    drawn, shown = (image.imread(path) for path in (tmp_path / "cross-planes.png", ROOT / PICTURE))
    assert drawn.shape == shown.shape
    assert np.abs(drawn - shown).mean() < 0.02  # fonts differ from machine to machine


def test_links_lead_somewhere():
    assert "](" in PAGE.text
    assert PAGE.broken_links == []


def test_the_table_is_the_reports():
    cells = pd.read_csv(ROOT / "reports" / "paper" / "cells.csv")
    linear = cells[cells["kernel"] == "linear"].set_index(["dataset", "method"])
    columns = [("twsvm", "accuracy"), ("gepsvm", "accuracy"), ("svm", "accuracy"), ("svm", "paper")]
    columns += [("hnpsvm", "accuracy"), ("hnpsvm", "nested")]
    rows = re.findall(r"^\| (\S+) \| ([\d.]+(?: \| [\d.]+){5}) \|$", PAGE.text, flags=re.M)
    assert len(rows) == 9
    for name, figures in rows:
        found = linear.loc[{"CMC": "cmc2_nouse"}.get(name, name.lower().replace("-", "_"))]
        assert figures.split(" | ") == [f"{found.loc[method, column]:.1f}" for method, column in columns]
