"""Data in tables and folders of images, and one sentence for those that cannot be read."""

import numpy as np
import pytest

from corollary.audit import SubjectError, read_data
from corollary.audit.files import column_names

X, Y, W = np.arange(8.0).reshape(4, 2), np.arange(4), np.array([1.0, 2, 0, 1])


def same(found, *expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_by_name(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, ids=Y, mask=Y > 1, y=Y, weights=W)
    x, y, weights = read_data(path)
    assert sorted(x) == ["ids", "mask"]
    assert x["mask"].dtype == bool
    same((y, weights), Y, W)
    x, *_ = read_data(path, inputs={"tokens": "ids"})
    assert list(x) == ["tokens"]
    np.savez(path, x=X, y=Y)
    same(read_data(path), X, Y)
    with pytest.raises(SubjectError, match="has no 'ids' for the input 'tokens': it holds 'x', 'y'"):
        read_data(path, inputs={"tokens": "ids"})


def test_tables_of_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,y,weights\n0,1,0,1\n2,3,1,2\n4,5,2,0\n6,7,3,1\n", encoding="utf-8")
    same(read_data(path), X, Y, W)
    path.write_text('"a";"b";"y0";"y1"\n0;1;5;"6"\n', encoding="utf-8-sig")
    same(read_data(path), X[:1], [[5, 6]])


def test_columns_of_test_data_are_those_of_the_training_data(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("a,b,y\n0,1,0\n2,3,1\n", encoding="utf-8")
    test.write_text("y;b;a\n0;1;0\n1;3;2\n", encoding="utf-8")
    names = column_names(train)
    assert names == ["a", "b", "y"]
    same(read_data(test, columns=names), X[:2], Y[:2])
    same(read_data(test), X[:2, ::-1], Y[:2])
    for line, sentence in (("a,c,y", "has no column 'b', which the"), ("a,b,c,y", "has the column 'c', which the")):
        test.write_text(f"{line}\n{','.join('1' * len(line.split(',')))}\n", encoding="utf-8")
        with pytest.raises(SubjectError, match=sentence):
            read_data(test, columns=names)
    assert column_names(tmp_path / "none.csv") is None
    assert column_names(tmp_path / "a.npz") is None


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y}), path)
    same(read_data(path), X, Y)
    same(read_data(path, columns=["b", "a", "y"]), X[:, ::-1], Y)
    assert column_names(path) == ["a", "b", "y"]
    parquet.write_table(pa.table({"x": X.astype(int).tolist(), "y": Y}), path)
    x, y = read_data(path)
    same((x, y), X, Y)
    assert x.dtype.kind == "i"
    for columns, sentence in (
        ({"x": [1.0, None], "y": [0, 1]}, "x in .* has 1 missing values"),
        ({"x": [[1], [1, 2]], "y": [0, 1]}, "x in .* must hold lists of one length"),
        ({"x": [1, 2], "y": ["a", "b"]}, "y in .* must hold numbers, got string: number the classes from 0"),
    ):
        parquet.write_table(pa.table(columns), path)
        with pytest.raises(SubjectError, match=sentence):
            read_data(path)
    path.write_bytes(b"no table")
    with pytest.raises(SubjectError, match="is not a readable Parquet file"):
        read_data(path)


def test_folders_of_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    for name, one in zip(("cat/b", "cat/a", "dog/a"), pixels, strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.fromarray(one).save(tmp_path / f"{name}.png")
    x, y = read_data(tmp_path)
    np.testing.assert_allclose(x, pixels[[1, 0, 2]].transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    same((y,), [0, 0, 1])
    same((read_data(tmp_path, classes=["bird", "cat", "dog"])[1],), [1, 1, 2])
    with pytest.raises(SubjectError, match="has the class 'dog', which the training data do not have"):
        read_data(tmp_path, classes=["cat"])
    with pytest.raises(SubjectError, match="leave out --input"):
        read_data(tmp_path, inputs={"x": "x"})
    image.fromarray(pixels[0, :, :, 0]).save(tmp_path / "dog/b.png")
    with pytest.raises(SubjectError, match="4 × 5 coloured pixels and .* 4 × 5 grey pixels"):
        read_data(tmp_path)
    (tmp_path / "dog/b.png").write_bytes(b"no image")
    with pytest.raises(SubjectError, match=r"b.png is not a readable PNG image"):
        read_data(tmp_path)
    image.fromarray(np.zeros((4, 5, 4), np.uint8)).save(tmp_path / "dog/b.png")
    with pytest.raises(SubjectError, match="has the mode RGBA: save it in grey or in RGB"):
        read_data(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", None, "is not a file"),
        ("a.txt", "a", "data are an .npz, .csv or .parquet file or a folder"),
        ("a.csv", "", "^the first line of .* must name the columns"),
        ("a.csv", "1,2\n3,4\n", "the first line of .* must name the columns"),
        ("a.csv", "a,y\n", "must hold at least one example"),
        ("a.csv", "a,y\n1,cat\n", "its first line: line 2 has 'cat' in the column 'y': number the classes from 0.$"),
        ("a.csv", "a,y\n1,2\n\n,3\n", "line 4 has nothing in the column 'a': fill it in, or leave the line out.$"),
        ("a.csv", "a,y\nlots,2\n", "line 2 has 'lots' in the column 'a'.$"),
        ("a.csv", "a,b\n1,2\n", "must hold the targets as y, and holds 'a', 'b'"),
        ("a.csv", "a,b,c,d,e,f,g,h\n1,2,3,4,5,6,7,8\n", "as y, and holds 'a', 'b', 'c', 'd', 'e', 'f' and 2 more.$"),
        ("a.csv", "y\n1\n", "must hold inputs beside the targets"),
        ("a.csv", "a,a,y\n1,2,3\n", "a name of its own for each of its 3 columns"),
        (
            "a.csv",
            "a,y\n1,2\n1,2,3\n",
            "must hold numbers below its first line: line 3 has 3 columns, the first line 2.$",
        ),
        ("folder", None, "must have a subfolder for each class"),
    ],
)
def test_one_sentence(tmp_path, name, text, sentence):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SubjectError, match=sentence) as caught:
        read_data(path)
    assert "\n" not in str(caught.value)
