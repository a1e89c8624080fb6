"""The shipped sets say what their provenance says; files are read right or refused with a reason."""

import gzip
import json
import pickle
import re
import sys
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from npsvm_cvx.datasets import (
    DATASETS,
    VARIANTS,
    as_arrays,
    load_dataset,
    load_file,
    make_cross_planes,
    make_three_lines,
    preprocessor,
    stratified_subsample,
)
from npsvm_cvx.errors import NPSVMError

DATA = resources.files("npsvm_cvx.data")
SCHEMA = json.loads((DATA / "schema.json").read_text(encoding="utf-8"))
PROVENANCE = (DATA / "PROVENANCE.md").read_text(encoding="utf-8")

# rows, features, values missing, class counts: as UCI's .names files give them (votes, hepatitis, wpbc with
# their missing values), or as the paper's Table 2 where it does not swap columns
TYPED = {
    "hepatitis": (155, 19, 167, {"1": 32, "2": 123}),
    "wpbc": (198, 33, 4, {"N": 151, "R": 47}),
    "pima_indian": (768, 8, 0, {"0": 500, "1": 268}),
    "votes": (435, 16, 392, {"democrat": 267, "republican": 168}),
    "iris": (150, 4, 0, {"Iris-setosa": 50, "Iris-versicolor": 50, "Iris-virginica": 50}),
    "ecoli": (336, 7, 0, {"cp": 143, "im": 77, "imL": 2, "imS": 2, "imU": 35, "om": 20, "omL": 5, "pp": 52}),
    "glass": (214, 9, 0, {"1": 70, "2": 76, "3": 17, "5": 13, "6": 9, "7": 29}),
    "car": (1728, 6, 0, {"acc": 384, "good": 69, "unacc": 1210, "vgood": 65}),
}


def facts(bunch):
    """Return (rows, features, missing, class counts) of a Bunch."""
    missing = int(bunch.data.isna().to_numpy().sum())
    return (*bunch.data.shape, missing, bunch.target.value_counts().to_dict())


# --- the shipped sets ----------------------------------------------------------------------------------


def test_eighteen_sets_in_the_papers_order():
    assert len(DATASETS) == len(set(DATASETS)) == 18
    assert (DATASETS[0], DATASETS[8], DATASETS[9], DATASETS[17]) == ("hepatitis", "cmc", "iris", "satimage")
    files = {file.name for file in DATA.iterdir() if file.name.endswith(".csv.gz")}
    assert files == {f"{name}.csv.gz" for name in DATASETS + VARIANTS} == set(SCHEMA)


@pytest.mark.parametrize("name", DATASETS + VARIANTS)
def test_every_set_is_what_schema_and_provenance_say(name):
    bunch, entry = load_dataset(name), SCHEMA[f"{name}.csv.gz"]
    assert facts(bunch) == (entry["rows"], entry["features"], entry["missing"], entry["classes"])
    line = re.search(
        rf"`{name}\.csv\.gz`: (\d+) rows, (\d+) features .*missing (\d+).*, classes (.*), file (\d+)",
        PROVENANCE,
    )
    rows, features, missing, classes, size = line.groups()
    counted = {label: int(count) for label, count in map(str.split, classes.split(", "))}
    assert facts(bunch) == (int(rows), int(features), int(missing), counted)
    assert len((DATA / f"{name}.csv.gz").read_bytes()) == int(size) == entry["bytes"]
    assert bunch.feature_names == list(bunch.data.columns) == list(bunch.kinds)
    assert bunch.kinds == entry["kinds"]
    assert bunch.target_names == sorted(entry["classes"])
    assert all(isinstance(label, str) for label in bunch.target)
    text = [c for c in bunch.data.columns if bunch.data[c].dtype != np.float64]
    assert text == entry["text_columns"]
    assert bunch.name == name
    for word in ("source: ", "licence: ", "notes: "):
        assert bunch.DESCR.count(word) == 1


@pytest.mark.parametrize("name", TYPED)
def test_sets_against_figures_typed_here(name):
    assert facts(load_dataset(name)) == TYPED[name]


@pytest.mark.parametrize(("name", "reference"), [("iris_fisher", load_iris), ("wine", load_wine)])
def test_values_against_scikit_learns_own_copy(name, reference):
    bunch, theirs = load_dataset(name), reference()
    np.testing.assert_array_equal(bunch.data.to_numpy(), theirs.data)
    np.testing.assert_array_equal(pd.factorize(bunch.target)[0], theirs.target)


def test_iris_differs_from_fishers_in_its_two_known_rows():
    ours, fisher = load_dataset("iris").data, load_dataset("iris_fisher").data
    assert np.flatnonzero((ours != fisher).any(axis=1)).tolist() == [34, 37]  # rows 35 and 38, counted from 1


def test_description_of_a_variant_is_its_originals():
    glass = load_dataset("glass_with_id")
    assert "variant of glass" in glass.DESCR
    assert "Id column gives the class away" in glass.DESCR


def test_a_loaded_set_can_be_changed_without_changing_the_next():
    first = load_dataset("iris")
    first.data.iloc[:] = 0.0
    first.kinds.clear()
    again = load_dataset("iris")
    assert again.data.to_numpy().min() > 0
    assert len(again.kinds) == 4


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("Iris", "'iris'"), ("heart", "'heart_statlog'"), ("vehicel", "'vehicle'"), (3, "sonar")],
)
def test_unknown_name(name, nearest):
    with pytest.raises(ValueError, match=rf"name: there is no data set {name!r}; .*{nearest}"):
        load_dataset(name)


# --- files ---------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def table():
    """Four rows: numbers with a gap, text with a gap, labels of digits with a leading zero."""
    return pd.DataFrame(
        {
            "size": [1.5, np.nan, -3e-7, 0.1],
            "colour": ["red", "dark blue", None, "red"],
            "y": ["01", "2", "2", "01"],
        },
        index=[7, 7, 3, 0],
    )


def assert_table(bunch, table, colour=True):
    np.testing.assert_array_equal(bunch.data["size"].to_numpy(), table["size"].to_numpy())
    assert bunch.data["size"].dtype == np.float64
    if colour:
        assert list(bunch.data["colour"].fillna("-")) == list(table["colour"].fillna("-"))
        assert bunch.kinds == {"size": "n", "colour": "c"}
    assert list(bunch.data.index) == list(range(len(table)))
    assert list(bunch.target.index) == list(range(len(table)))


@pytest.mark.parametrize(("name", "sep"), [("t.csv", ","), ("t.csv.gz", ","), ("t.tsv", "\t"), ("t.tsv.gz", "\t")])
def test_csv_round_trip(tmp_path, table, name, sep):
    table.to_csv(tmp_path / name, sep=sep, index=False)
    bunch = load_file(tmp_path / name)
    assert_table(bunch, table)
    assert list(bunch.target) == ["01", "2", "2", "01"]  # as written: no number was made of 01
    assert (bunch.target_names, bunch.name) == (["01", "2"], "t")


def test_csv_as_uci_writes_it(write):
    bunch = load_file(write("t.csv", "\ufeffx, q, y\n1, ?, a\nNA, b, c\n"))
    assert bunch.feature_names == ["x", "q"]
    assert bunch.data.isna().to_numpy().tolist() == [[False, True], [True, False]]
    assert list(bunch.target) == ["a", "c"]


def test_target_by_name_and_truth_values_as_numbers(write):
    bunch = load_file(str(write("t.csv", "y,flag,x\n0,True,1\n1,,2\n0,False,3\n")), target="y")
    assert bunch.feature_names == ["flag", "x"]
    np.testing.assert_array_equal(bunch.data["flag"], [1.0, np.nan, 0.0])
    assert list(bunch.target) == ["0", "1", "0"]


def test_shipped_file_reads_like_the_shipped_set():
    ours = load_dataset("votes")
    with resources.as_file(DATA / "votes.csv.gz") as path:
        bunch = load_file(path)
    pd.testing.assert_frame_equal(bunch.data, ours.data)
    pd.testing.assert_series_equal(bunch.target, ours.target)


ARFF = """% a comment
@relation t
@attribute size numeric
@attribute colour {red, dark_blue}
@attribute y {01, 2}
@data
1.5,red,01
?,dark_blue,2
-3e-7,?,2
0.1,red,01
"""


@pytest.mark.parametrize(("name", "content"), [("t.arff", ARFF), ("t.arff.gz", gzip.compress(ARFF.encode(), mtime=0))])
def test_arff_round_trip(write, table, name, content):
    table["colour"] = table["colour"].str.replace(" ", "_")  # SciPy's reader takes no quoted value there
    bunch = load_file(write(name, content))
    assert_table(bunch, table)
    assert list(bunch.target) == ["01", "2", "2", "01"]


@pytest.mark.parametrize("name", ["t.libsvm", "t.svm", "t.svmlight", "t.txt", "t.libsvm.gz"])
def test_libsvm_round_trip(tmp_path, name):
    dense = np.random.default_rng(0).random((12, 5))
    X = sp.csr_matrix(np.where(dense > 0.6, dense, 0.0))
    assert X.indices.max() == 4  # the last feature occurs, so the file tells the width
    y = np.array([1, -1, 3] * 4)
    plain = tmp_path / "plain"
    dump_svmlight_file(X, y, str(plain), zero_based=False)
    content = plain.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    bunch = load_file(tmp_path / name)
    np.testing.assert_allclose(bunch.data.to_numpy(), X.toarray(), rtol=1e-15)  # text with 16 digits
    assert list(bunch.target) == [str(label) for label in y]


def test_parquet_round_trip(tmp_path, table):
    pytest.importorskip("pyarrow", reason="needs the parquet extra")
    table["count"] = pd.array([1, None, 3, 4], dtype="Int64")
    table["grade"] = pd.Categorical(["a", "b", "a", "b"])
    table["y"] = [1.0, 2.0, 2.0, 0.5]
    table.to_parquet(tmp_path / "t.parquet")  # its index must not become a feature
    bunch = load_file(tmp_path / "t.parquet", target="y")
    assert_table(bunch, table, colour=False)
    assert bunch.kinds == {"size": "n", "colour": "c", "count": "n", "grade": "c"}
    np.testing.assert_array_equal(bunch.data["count"], [1.0, np.nan, 3.0, 4.0])
    assert list(bunch.target) == ["1", "2", "2", "0.5"]
    assert np.isfinite(as_arrays(bunch)[0]).all()


def test_parquet_without_pyarrow_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"t\.parquet' is Parquet and pyarrow is not installed; .*\[parquet\]"):
        load_file(write("t.parquet", "PAR1"))


def test_parquet_that_is_none(write):
    pytest.importorskip("pyarrow", reason="needs the parquet extra")
    with pytest.raises(ValueError, match=r"path: .*t\.parquet' cannot be read .*check that it is a Parquet table"):
        load_file(write("t.parquet", "x,y\n1,a\n"))


MEASURED = "x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(50))
ARFF_HEAD = "@relation t\n@attribute x numeric\n@attribute y {a,b}\n@data\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", r"is empty \(0 bytes\)"),
        ("t.csv", "\n\n", r"cannot be read \(EmptyDataError"),
        ("t.csv", "x,y\n", r"has column names and no rows"),
        ("t.xlsx", "x", r"has an ending no reader knows; known are \.csv, "),
        ("t.gz", "x", r"has an ending no reader knows"),
        ("t.csv", "x,x,y\n1,2,a\n3,4,b\n", r"has more than one column named 'x'; rename them"),
        ("t.csv", ",x,y\n0,1,a\n1,2,b\n", r"has no name for column 1; .*without its index"),
        (
            "t.csv",
            "5.1,3.5,A\n4.9,3.0,B\n",
            r"has numbers for column names \(5\.1, 3\.5, A\); add a header line",
        ),
        ("t.csv", "x;y\n1;a\n2;b\n", r"has only the columns \['x;y'\]; it needs features too"),
        ("t.csv", "x,y\n1,2,a\n3,4,b\n", r"as many fields in each row as in the header"),
        ("t.csv", "x,y\n1,a\n3,4,b\n", r"Expected 2 fields in line 3.*as many fields in each row"),
        ("t.csv", "x,y\n1,é\n2,b\n".encode("latin1"), r"cannot be read \(UnicodeDecodeError.*UTF-8"),
        ("t.csv.gz", "x,y\n1,a\n2,b\n", r"cannot be read \(BadGzipFile"),
        ("t.csv.gz", gzip.compress(b"x,y\n1,a\n2,b\n", mtime=0)[:-9], r"cannot be read \(EOFError"),
        ("t.csv", "x,z,y\n1,1,a\n2,-inf,b\n", r"has an infinite value in column 'z'"),
        ("t.csv", "x,y\n1,a\n2,\n3,?\n", r"target: column 'y' of .* has 2 missing labels; remove"),
        (
            "t.csv",
            "x,y\n1,a\n2,a\n",
            r"target: column 'y' of .* holds the one class 'a'; classification needs two",
        ),
        (
            "t.csv",
            MEASURED,
            r"target: column 'y' of .* has 50 different numbers in 50 rows, so it looks continuous",
        ),
        ("t.arff", "nonsense", r"cannot be read \(StopIteration\); check that it is ARFF"),
        ("t.arff", ARFF_HEAD, r"has column names and no rows"),
        ("t.arff", ARFF_HEAD + "wide,a\n", r"cannot be read \(ValueError: could not convert .*'wide'"),
        ("t.arff", ARFF_HEAD + "1,c\n", r"cannot be read \(ValueError: c value not in"),
        ("t.arff", ARFF_HEAD.replace("numeric", "string") + "q,a\n", r"cannot be read .*String attributes"),
        (
            "t.arff",
            ARFF_HEAD + "1,b\n2,'a'\n",
            r"cannot be read .*unquoted ASCII categories only, or save it as CSV",
        ),
        ("t.arff", ARFF_HEAD + "1,a\n2,?\n", r"target: column 'y' of .* has 1 missing labels"),
        ("t.txt", "1,2,3\n", r"cannot be read .*check that each row is: label index:value"),
        ("t.svm", "1 1:1\n2 999999999:1\n", r"would fill a dense table of 2 x 999999999; .*keep it sparse"),
        ("t.svm", "1 1:1\n2 2:inf\n", r"has an infinite value in column 'x2'"),
    ],
)
def test_refused_files(write, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=message) as caught:
        load_file(path)
    assert type(caught.value) is NPSVMError
    assert re.match("path: |target: ", str(caught.value))
    assert repr(str(path)) in str(caught.value)


def test_twenty_classes_of_numbers_are_not_continuous(write):
    rows = "".join(f"{i},{i % 21}\n" for i in range(42))
    assert len(load_file(write("t.csv", "x,y\n" + rows)).target_names) == 21


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path: there is no file '.*none\.csv'"):
        load_file(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"is not a file; give the path of one file"):
        load_file(tmp_path)


def test_target_that_is_not_there(write):
    with pytest.raises(ValueError, match=r"target: .* has no column 'specie'; did you mean 'species'\?"):
        load_file(write("t.csv", "x,species\n1,a\n2,b\n"), target="specie")
    with pytest.raises(ValueError, match=r"target: 'y' was named, but a LIBSVM file has its labels in front"):
        load_file(write("t.svm", "1 1:1\n2 1:2\n"), target="y")


# --- preprocessing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATASETS)
def test_arrays_are_dense_finite_and_in_row_order(name):
    bunch = load_dataset(name)
    X, y = as_arrays(bunch)
    assert (X.dtype, X.ndim, X.flags.c_contiguous, y.dtype.kind) == (np.float64, 2, True, "U")
    assert np.isfinite(X).all()
    assert list(y) == list(bunch.target)


def test_numbers_are_imputed_by_median_and_standardised():
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 9.0]})
    X = preprocessor(frame).fit_transform(frame)
    x = np.array([1.0, 2.0, 2.0, 9.0])  # the median of 1, 2, 9 is 2
    np.testing.assert_allclose(X[:, 0], (x - 3.5) / np.sqrt(np.mean((x - 3.5) ** 2)), rtol=1e-15)


def test_categories_are_imputed_by_mode_and_one_hot():
    frame = pd.DataFrame({"c": ["r", "b", None, "r"], "code": [4.0, 4.0, np.nan, 3.0], "o": [1, 2, 3, 4]})
    steps = preprocessor(frame, kinds={"code": "c", "o": "o"}).fit(frame)
    # numbers first: o, standardised; then c (b, r) and code (3, 4)
    assert steps.transform(frame)[:, 1:].tolist() == [[0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    names = ["numeric__o", "nominal__c_b", "nominal__c_r", "nominal__code_3.0", "nominal__code_4.0"]
    assert list(steps.get_feature_names_out()) == names
    # whole-number codes of a fold without gaps are the same codes, and an unseen category is none of them
    later = pd.DataFrame({"c": ["new", "r"], "code": [4, 3], "o": [1, 2]})
    assert steps.transform(later)[:, 1:].tolist() == [[0, 0, 0, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize(("name", "width"), [("car", 21), ("votes", 32), ("heart_statlog", 20), ("hepatitis", 19)])
def test_widths(name, width):
    # car 4+4+4+3+3+3 values; votes y and n; heart 10 numbers, chest pain 4, ECG 3, thal 3; hepatitis as it is
    assert as_arrays(load_dataset(name))[0].shape[1] == width


def test_columns_that_are_empty_or_constant_in_training():
    frame = pd.DataFrame(
        {
            "gap": [np.nan, np.nan, 5.0, 7.0],
            "none": pd.Series([None, None, "a", "b"], dtype=object),
            "same": [0.1, 0.1, 0.1, 3.0],
            "one": ["u", "u", "u", "v"],
            "x": [1.0, 2.0, 3.0, 4.0],
        },
        index=[5, 5, 1, 0],
    )
    steps = preprocessor(frame).fit(frame.iloc[:2])
    X = steps.transform(frame)
    assert X.shape == (4, 5)
    assert np.isfinite(X).all()
    assert X[0, :2].tolist() == X[1, :2].tolist() == [0.0, 0.0]  # an empty and a constant number become 0


def test_storage_does_not_matter():
    plain = pd.DataFrame({"i": [1.0, np.nan, 3.0], "b": [1.0, 0.0, np.nan], "f": [0.5, 0.25, 1.0]})
    stored = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([True, False, None], dtype="boolean"),
            "f": np.array([0.5, 0.25, 1.0], dtype="float32"),
        },
        index=[2, 2, 2],
    )
    expected = preprocessor(plain).fit_transform(plain)
    np.testing.assert_array_equal(preprocessor(stored).fit_transform(stored), expected)
    unnamed = plain.set_axis([2, 0, 1], axis=1)  # whole numbers for names, and not in order
    np.testing.assert_array_equal(preprocessor(unnamed).fit_transform(unnamed), expected)


def test_index_does_not_matter():
    votes = load_dataset("votes")
    X, y = as_arrays(votes)
    votes.data.index = votes.data.index[::-1]
    X2, y2 = as_arrays(votes)
    np.testing.assert_array_equal(X2, X)
    np.testing.assert_array_equal(y2, y)


def test_arrays_of_scikit_learns_own_bunches():
    for as_frame in (False, True):
        X, y = as_arrays(load_iris(as_frame=as_frame))
        assert X.shape == (150, 4)
        assert y.dtype.kind == "i"


def test_steps_can_be_cloned_and_pickled():
    car = load_dataset("car")
    steps = preprocessor(car)
    X = clone(steps).fit_transform(car.data)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(steps)).fit_transform(car.data), X)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"heights": "n"}, r"kinds: the table has no column 'heights'; did you mean 'height'\?"),
        ({"height": "z"}, r"kinds: column 'height' has kind 'z'; a kind is one of 'n' \(numeric\)"),
        ({"colour": "n"}, r"kinds: column 'colour' has kind 'n' and type .*; give it kind 'c'"),
    ],
)
def test_wrong_kinds(kinds, message):
    frame = pd.DataFrame({"height": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match=message):
        preprocessor(frame, kinds=kinds)


# Percent, from the table "SVC check" in PROVENANCE.md, which other code computed; only sets without nominal
# columns, since that code took numeric codes as numbers throughout.
@pytest.mark.parametrize(("name", "percent"), [("hepatitis", 83.46), ("wpbc", 78.32), ("wine", 95.52), ("iris", 96.67)])
def test_accuracy_inside_folds_is_what_provenance_states(name, percent):
    bunch = load_dataset(name)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    model = make_pipeline(preprocessor(bunch), SVC(kernel="linear"))
    assert 100 * cross_val_score(model, bunch.data, bunch.target, cv=folds).mean() == pytest.approx(percent, abs=0.005)


# --- subsamples ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    n=st.integers(1, 200),
    seed=st.integers(0, 2**32 - 1),
)
def test_subsample_properties(counts, n, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([f"k{k}" for k in range(len(counts))], counts))
    X = np.arange(len(y))[:, None]
    X_few, y_few = stratified_subsample(X, y, n, random_state=seed)
    rows = X_few[:, 0]
    assert (np.diff(rows) > 0).all()  # in order, none twice
    assert (y_few == y[rows]).all()
    floor = sum(min(2, count) for count in counts)
    assert len(rows) == max(floor, min(n, len(y)))
    for k, count in enumerate(counts):
        kept = int((y_few == f"k{k}").sum())
        assert min(2, count) <= kept <= count
    again = stratified_subsample(X, y, n, random_state=seed)
    assert (again[0] == X_few).all()


def test_subsample_is_in_proportion():
    y = np.repeat(["a", "b", "c"], [600, 300, 100])
    _, few = stratified_subsample(y[:, None], y, 50)
    assert {str(label): int((few == label).sum()) for label in "abc"} == {"a": 30, "b": 15, "c": 5}


def test_subsample_keeps_types_and_ignores_the_index():
    frame = pd.DataFrame({"x": range(10)}, index=[3] * 10)
    labels = pd.Series(["p", "q"] * 5, index=range(10, 20))
    X, y = stratified_subsample(frame, labels, 4)
    assert isinstance(X, pd.DataFrame)
    assert isinstance(y, pd.Series)
    assert [("p", "q")[x % 2] for x in X["x"]] == list(y)
    dense = stratified_subsample(frame.to_numpy(), labels.to_numpy(), 4)[0]
    sparse = stratified_subsample(sp.csr_array(frame.to_numpy()), list(labels), 4)[0]
    assert sparse.toarray().tolist() == dense.tolist() == X.to_numpy().tolist()
    others = {tuple(stratified_subsample(frame, labels, 4, random_state=s)[0]["x"]) for s in range(20)}
    assert len(others) > 1


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3", None])
def test_subsample_size_is_checked(n):
    with pytest.raises(ValueError, match=rf"n: found {n!r}; it must be a whole number, 1 or more"):
        stratified_subsample(np.ones((3, 1)), [1, 2, 1], n)


def test_subsample_labels_are_checked():
    with pytest.raises(ValueError, match=r"y: found shape \(2,\) for the 3 rows of X"):
        stratified_subsample(np.ones((3, 1)), [1, 2], 2)
    with pytest.raises(ValueError, match=r"y: 1 labels are missing"):
        stratified_subsample(np.ones((3, 1)), pd.Series(["a", None, "b"]), 2)


# --- toy sets ------------------------------------------------------------------------------------------

# (w1, w2, b) of w1 x1 + w2 x2 + b = 0 for each class, from the docstrings
CROSS = [(0.8, -1.0, 0.1), (-0.6, -1.0, 0.3)]
THREE = [(0.9, -1.0, 0.5), (-0.8, -1.0, 0.4), (0.1, -1.0, -0.4)]
TOYS = [(make_cross_planes, CROSS, 202), (make_three_lines, THREE, 330)]


def distances(X, y, lines):
    """Signed distance of each point from its class's line."""
    W = np.array(lines)[y - 1]
    return (np.sum(W[:, :2] * X, axis=1) + W[:, 2]) / np.hypot(W[:, 0], W[:, 1])


@pytest.mark.parametrize(("make", "lines", "n"), TOYS)
def test_toy_sets(make, lines, n):
    X, y = make()
    assert (X.shape, X.dtype, y.dtype) == ((n, 2), np.float64, np.int64)
    assert np.bincount(y)[1:].tolist() == [n // len(lines)] * len(lines)  # the paper's 101 and 110 a class
    assert np.abs(distances(X, y, lines)).max() < 5 * 0.05  # five standard deviations
    assert np.abs(distances(*make(noise=0.0), lines)).max() < 1e-15
    for k in range(1, len(lines) + 1):  # each class is spread along its line, not heaped at one place
        assert np.ptp(X[y == k, 0]) > 1.5


@pytest.mark.parametrize(("make", "lines", "n"), TOYS)
def test_toy_noise_is_the_standard_deviation_of_the_distance(make, lines, n):
    X, y = make(60_000, noise=0.2, random_state=1)
    for k in range(1, len(lines) + 1):  # at 20000 points or more the estimate is good to 0.5 % (one sigma)
        assert distances(X, y, lines)[y == k].std() == pytest.approx(0.2, rel=0.025)


@pytest.mark.parametrize(("make", "lines", "n"), TOYS)
def test_toy_seeds(make, lines, n):
    X, y = make(31, random_state=5)
    np.testing.assert_array_equal(make(31, random_state=np.random.RandomState(5))[0], X)
    assert (make(31, random_state=6)[0] != X).any()
    assert np.ptp(np.bincount(y)[1:]) == 1  # the odd point goes to a first class
    assert (np.diff(y) >= 0).all()


@pytest.mark.parametrize(("make", "lines", "n"), TOYS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 1}, r"n_samples: found 1; it must be a whole number, [23] or more"),
        ({"n_samples": 20.0}, r"n_samples: found 20\.0"),
        ({"noise": -0.1}, r"noise: found -0\.1; it must be a finite number, 0 or more"),
        ({"noise": np.nan}, r"noise: found nan"),
        ({"noise": "0.1"}, r"noise: found '0\.1'"),
    ],
)
def test_toy_arguments(make, lines, n, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)
