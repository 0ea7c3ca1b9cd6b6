"""What is wrong with the URL of a reporting database is told, and nothing is made."""

import pytest

from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.store import ReportingStore


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///", "names no file; put three slashes before its path"),
        ("sqlite://reporting.sqlite", "names no file; put three slashes before its path"),
        ("sqlite://folder/reporting.sqlite", "names no file; put three slashes"),
        ("sqlite:///r.sqlite?mode=ro", "has the option mode, which an SQLite file does not take"),
        (
            "sqlite:///{folder}",
            "is a folder: name a file, such as sqlite:///{folder}/reporting.sql",
        ),
        (
            "sqllite:///r.sqlite",
            "SQLite file (sqlite:///) or in PostgreSQL (postgresql://), not in",
        ),
        ("postgressql://h/d", "not in 'postgressql'"),
        ("postgresql://", "names no database; add it after the server"),
        ("postgresql://me:secret@host", "postgresql://me:***@host names no database"),
        ("C:\\reports\\r.sqlite", "is malformed; use postgresql://USER@HOST:PORT/DATABASE, or"),
        ("r.sqlite", "or sqlite:/// followed by the path of a file"),
    ],
)
def test_an_invalid_url_is_explained(tmp_path, monkeypatch, url, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Text2SqlError) as caught:
        ReportingStore(url.format(folder=tmp_path))
    assert words.format(folder=tmp_path) in str(caught.value)
    assert caught.value.exit_code == 1 and list(tmp_path.iterdir()) == []


def test_a_tilde_is_the_home_folder_and_a_space_is_a_space(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    ReportingStore("sqlite:///~/of mine/r.sqlite").close()
    assert (tmp_path / "of mine" / "r.sqlite").is_file()
