"""The tutorial of formulations/README.md, executed as it stands: from an empty folder to a verified loss."""

from blocks import ROOT, Page, run, session, write

PAGE = Page(ROOT / "formulations" / "README.md")


def test_the_tutorial_does_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = attempted = 0
    for kind, text in PAGE.blocks:
        if kind == "console":
            ran += run(text, tmp_path)
        elif text.startswith(">>>"):
            tried, failed = session(text, "formulations/README.md", {})
            attempted += tried
            assert failed == 0
        else:
            write(text, tmp_path)
    assert ran == 9
    assert attempted == 4


def test_every_block_is_of_a_kind_that_is_executed():
    assert {kind for kind, _ in PAGE.blocks} == {"console", "python"}
    assert (len(PAGE.files), len(PAGE.sessions)) == (1, 1)


def test_links_lead_somewhere():
    assert PAGE.broken_links == []
