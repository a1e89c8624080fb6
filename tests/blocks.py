"""The code blocks of a Markdown file, executed as a reader would: files written, commands run, sessions compared."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("sh", "python", "console")


class Page:
    """A Markdown file's blocks: files (a first line names each), sessions, and commands with what they print."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        self.folder = path.parent
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```$", self.text, flags=re.M | re.S)

    def of(self, kind):
        return [text for language, text in self.blocks if language == kind]

    @property
    def files(self):
        return [text for text in self.of("python") if not text.startswith(">>>")]

    @property
    def sessions(self):
        return [text for text in self.of("python") if text.startswith(">>>")]

    @property
    def broken_links(self):
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", self.text) if not link.startswith("http")]
        return [link for link in links if not (self.folder / link).exists()]


def write(text, place):
    name = re.match(r"# (\w+\.py)\n", text)
    assert name, "a file's first line names it"
    (place / name[1]).write_text(text, encoding="utf-8")


def run(text, place):
    """Run a console block's commands; return how many, having compared what each prints with what is shown."""
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    ran = 0
    for command, shown in commands(text):
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert normal(done.stdout) == normal(shown), command
        ran += 1
    return ran


def commands(text):
    """Yield each command of a console block, a here-document included, and what is shown below it."""
    lines, at = text.splitlines(keepends=True), 0
    while at < len(lines):
        command, at = lines[at].removeprefix("$ "), at + 1
        end = re.search(r"<< (\w+)$", command)
        while end and at < len(lines) and command.splitlines()[-1] != end[1]:
            command, at = command + lines[at], at + 1
        shown = ""
        while at < len(lines) and not lines[at].startswith("$ "):
            shown, at = shown + lines[at], at + 1
        yield command, shown


def normal(text):
    """Drop what differs from run to run or machine to machine: seconds, and the last digits of small figures."""
    text = re.sub(r"in \d+\.\d+s( \(\d+:\d\d:\d\d\))?", "in #s", text)  # from a minute on pytest adds the hours
    return [line.rstrip() for line in re.sub(r"\d(\.\d+)?e-\d+", "#", text).strip().splitlines()]


def session(text, name, names):
    """Run a Python session as a doctest; return (attempted, failed).  ``names`` has what earlier ones defined."""
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    result = doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
    names.update(test.globs)
    return result.attempted, result.failed
