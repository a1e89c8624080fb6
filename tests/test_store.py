import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.store import Store, key_of


def test_what_is_put_is_got_by_another_process(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.put("a", [1, {"b": 0.1}])
        assert store.get("missing") is None
    code = (
        f"from npsvm_cvx.store import Store; print(Store(__import__('pathlib').Path(r'{tmp_path}/s.sqlite')).get('a'))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[1, {'b': 0.1}]"


def test_the_key_depends_on_every_part_and_not_on_their_order():
    assert key_of(a=1, b=2) == key_of(b=2, a=1)
    assert len({key_of(a=1), key_of(a=2), key_of(b=1), key_of(a=1, b=1)}) == 4


def test_a_process_killed_while_writing_loses_nothing_it_had_put(tmp_path):
    code = (
        "import sys, pathlib; from npsvm_cvx.store import Store\n"
        f"store = Store(pathlib.Path(r'{tmp_path}/s.sqlite'))\n"
        "for i in range(10**6):\n    store.put(str(i), i); print(i, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    last = -1
    begin = time.monotonic()
    while last < 20 and time.monotonic() - begin < 60:
        last = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Store(tmp_path / "s.sqlite") as store:
        assert [store.get(str(i)) for i in range(last + 1)] == list(range(last + 1))


def test_a_file_that_is_no_store_is_named(tmp_path):
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(NPSVMError, match=r"s\.sqlite is not a results store: remove it"):
        Store(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NPSVMError, match="cannot be written"):
        Store(tmp_path / "file" / "s.sqlite")


def test_a_damaged_value_counts_as_missing(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("a", 1)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE results SET value = '{\"half'")
    connection.commit()
    connection.close()
    with Store(path) as store:
        assert store.get("a") is None
        assert store.keys() == set()
        assert list(store.entries()) == []
        assert store.damaged() == 1
        store.drop(set())
    assert sqlite3.connect(path).execute("SELECT count(*) FROM results").fetchone() == (0,)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "tables", ["visits (place TEXT)", "results (key, value, mine)", "results (key, value); CREATE TABLE users (name)"]
)
def test_a_database_of_another_program_is_left_as_it_was(tmp_path, create, tables):
    path = tmp_path / "theirs.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE {tables};")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NPSVMError, match=r"theirs\.sqlite is not a results store \(its tables are another program's\)"):
        Store(path, create=create)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store_only_where_one_is_to_be_made(tmp_path):
    path = tmp_path / "empty.sqlite"
    path.touch()
    with pytest.raises(NPSVMError, match=r"empty\.sqlite is not a results store \(it is empty\)"):
        Store(path, create=False)
    assert path.read_bytes() == b""
    with Store(path) as store:
        store.put("a", 1)
        assert store.keys() == {"a"}


def test_what_a_result_is_of_may_be_damaged_too(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        for key, about in (("a", "{"), ("b", "[1]"), ("c", 7), ("d", b"\x00")):
            store.put(key, 1)
            store._connection.execute("UPDATE results SET about = ? WHERE key = ?", (about, key))
        assert {(entry.key, *entry.about) for entry in store.entries()} == {("a",), ("b",), ("c",), ("d",)}
