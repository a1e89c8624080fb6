"""Every block of the README is executed, in order, in an empty folder: what it shows is what happens."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

PICTURE = "reports/pictures/cross-planes.png"
ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.M | re.S)
TEXTS = {language: [text for kind, text in BLOCKS if kind == language] for language in ("sh", "python", "console")}
FILES = [text for text in TEXTS["python"] if not text.startswith(">>>")]
SESSIONS = [text for text in TEXTS["python"] if text.startswith(">>>")]


def test_every_block_is_of_a_kind_that_is_executed():
    assert {language for language, _ in BLOCKS} == {"sh", "python", "console"}
    assert (len(TEXTS["sh"]), len(FILES), len(SESSIONS)) == (2, 3, 8)


def test_the_gate_runs_the_set_up_commands_word_for_word():
    # they make virtual environments and take minutes: the gate runs them, read out of the README as here
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "$(block 1)" in gate
    assert "$(block 2)" in gate
    assert "report verification --quick" in TEXTS["sh"][0]
    assert TEXTS["sh"][1].rstrip().endswith("pytest")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("readme")
    for text in FILES:
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, "a file's first line names it"
        (place / name[1]).write_text(text, encoding="utf-8")
    return place


def normal(text):
    """Drop what differs from run to run or machine to machine: seconds, and the last digits of small figures."""
    text = re.sub(r"in \d+\.\d+s", "in #s", text)
    return [line.rstrip() for line in re.sub(r"\d(\.\d+)?e-\d+", "#", text).strip().splitlines()]


def test_console_blocks_print_what_is_shown(folder):
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    ran = 0
    for text in TEXTS["console"]:
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.M):
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, done.stderr
            assert normal(done.stdout) == normal(shown), command
            ran += 1
    assert ran == 6


def test_python_sessions_print_what_is_shown(tmp_path, monkeypatch):
    # one reader, one interpreter: what an earlier block defines a later one uses
    monkeypatch.chdir(tmp_path)
    names = {}
    for text in SESSIONS:
        test = doctest.DocTestParser().get_doctest(text, names, "README.md", "README.md", 0)
        result = doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
        names = test.globs
        assert result.attempted > 0
        assert result.failed == 0
    # and the picture that is shown is the one that is drawn
    drawn, shown = (image.imread(path) for path in (tmp_path / "cross-planes.png", ROOT / PICTURE))
    assert drawn.shape == shown.shape
    assert np.abs(drawn - shown).mean() < 0.02  # fonts differ from machine to machine


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
