"""Every form in which questions and databases come, through the project's own assets."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.data import bird
from assets.data.known_issues import known_issues
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from tests.datasets.file_server import Behaviour, FileServer
from tests.support.dataset_files import make_database, question, team_row, write
from text2sql.common.artifacts import latest_dataset_file
from text2sql.datasets import stored as data

ASSETS = [bird.bird_archive, bird.bird_questions, bird.bird_databases]


def published(folder: Path, split: str = "dev") -> Path:
    """Write a split's .zip as BIRD publishes it; return the .zip."""
    root = {"dev": "dev_20240627", "train": "train"}[split]
    for name, rows in (("shop", 3), ("clinic", 4)):
        make_database(folder / "work" / f"{name}.sqlite", rows)
    inner = folder / "work" / "inner.zip"
    with zipfile.ZipFile(inner, "w") as file:
        for name in ("shop", "clinic"):
            member = f"{split}_databases/{name}/{name}.sqlite"
            file.write(folder / "work" / f"{name}.sqlite", member)
            file.writestr(f"__MACOSX/{split}_databases/{name}/._{name}.sqlite", b"\0\5\x16\7")
    with zipfile.ZipFile(folder / f"{split}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{root}/{split}.json", json.dumps([question(1), question(2, "clinic")]))
        file.writestr(f"{root}/{split}_tables.json", "[]")
        file.writestr(f"{root}/dev_tied_append.json", "[]")
        file.write(inner, f"{root}/{split}_databases.zip")
        file.writestr(f"__MACOSX/{root}/._{split}.json", b"x")
    return folder / f"{split}.zip"


def ingest(root: Path, archive: dict[str, Any], assets: Any = ASSETS, **questions: Any) -> Any:
    config = {"bird_archive": {"splits": ["dev"], **archive}, "bird_questions": questions}
    if bird.bird_archive not in assets:
        del config["bird_archive"]
    return dg.materialize(
        assets,
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=2)},
        run_config={"ops": {name: {"config": values} for name, values in config.items()}},
        raise_on_error=False,
    )


def failure(result: Any) -> str:
    (event,) = result.get_step_failure_events()
    error = event.step_failure_data.error
    return str(error.cause.message if error.cause else error.message)


def metadata(result: Any, asset: str) -> dict[str, Any]:
    (event,) = [
        event.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key.to_user_string() == asset
    ]
    return {name: value.value for name, value in event.metadata.items()}


def keys(root: Path, split: str = "dev") -> list[str]:
    return [question.key for question in data.load_questions(root, split)]


def unpack_outer(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder


@pytest.mark.parametrize("form", ["zip", "extracted", "one level up", "downloads", "url"])
def test_bird_as_it_is_published(tmp_path: Path, form: str) -> None:
    """The outer archive unpacked by hand leaves the inner one packed, and macOS's rests."""
    archive = published(tmp_path / "made")
    extracted = unpack_outer(archive, tmp_path / "up" / "bird")
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    shutil.copy(archive, downloads)
    with FileServer(Behaviour(archive.read_bytes())) as server:
        source = {
            "zip": str(archive),
            "extracted": str(extracted / "dev_20240627"),
            "one level up": str(tmp_path / "up"),
            "downloads": str(downloads),
            "url": server.url,
        }[form]
        before = sorted(path for path in tmp_path.rglob("*") if "root" not in path.parts)
        result = ingest(tmp_path / "root", {"source": source})
        assert result.success, failure(result)
        assert metadata(result, "bird_archive")["dev databases"] == 2
        assert keys(tmp_path / "root") == ["dev/1", "dev/2"]
        assert not [f for f in (tmp_path / "root").rglob("*") if f.name.startswith("._")]
        unpacked = list((tmp_path / "root").glob("archives/*"))
        again = ingest(tmp_path / "root", {"source": source})
        assert again.success and list((tmp_path / "root").glob("archives/*")) == unpacked
    assert sorted(path for path in tmp_path.rglob("*") if "root" not in path.parts) == before


def test_all_forms_of_one_dataset_have_one_fingerprint(tmp_path: Path) -> None:
    archive = published(tmp_path)
    folder = unpack_outer(archive, tmp_path / "extracted")
    found = [
        metadata(ingest(tmp_path / f"root{n}", {"source": str(source)}), "bird_archive")
        for n, source in enumerate((archive, folder))
    ]
    assert found[0]["fingerprint"] == found[1]["fingerprint"]


def test_a_rerun_reads_and_checks_nothing(tmp_path: Path) -> None:
    archive = published(tmp_path)
    first = ingest(tmp_path / "root", {"source": str(archive)})
    second = ingest(tmp_path / "root", {"source": str(archive)})
    assert metadata(first, "bird_databases")["inspected now"] == 2
    assert metadata(second, "bird_databases")["inspected now"] == 0
    assert metadata(first, "bird_archive")["files read"] == 1  # the archive, to know its name
    assert metadata(second, "bird_archive")["files read"] == 0
    tags = [
        [
            e.materialization.tags["dagster/data_version"]
            for e in r.get_asset_materialization_events()
        ]
        for r in (first, second)
    ]
    assert tags[0] == tags[1]


def test_only_what_changed_is_read_and_checked_again(tmp_path: Path) -> None:
    folder = unpack_outer(published(tmp_path), tmp_path / "data") / "dev_20240627"
    with zipfile.ZipFile(folder / "dev_databases.zip") as file:
        file.extractall(folder)
    source = {"source": str(folder)}
    first = ingest(tmp_path / "root", source)
    make_database(folder / "dev_databases" / "shop" / "new.sqlite", 9).replace(
        folder / "dev_databases" / "shop" / "shop.sqlite"
    )
    (folder / "dev_databases" / "clinic" / "clinic.sqlite").touch()
    second = ingest(tmp_path / "root", source)
    assert metadata(second, "bird_archive")["files read"] == 2  # touched, but the same
    assert metadata(second, "bird_databases")["inspected now"] == 1
    assert metadata(second, "bird_databases")["rows"] == 13
    found = [metadata(result, "bird_archive")["fingerprint"] for result in (first, second)]
    assert found[0] != found[1]


def test_an_edited_description_makes_another_dataset(tmp_path: Path) -> None:
    """The agent reads descriptions: what was drawn with the old text is not of this dataset."""
    folder = tmp_path / "data"
    shop = make_database(folder / "dev_databases" / "shop" / "shop.sqlite").parent
    write(folder / "dev.json", [question(1)])
    text = shop / "database_description" / "orders.csv"
    text.parent.mkdir()
    text.write_text("original_column_name,column_description\nid,number of the order\n")
    found = [metadata(ingest(tmp_path / "root", {"source": str(folder)}), "bird_archive")]
    text.write_text("original_column_name,column_description\nid,number of the client\n")
    found.append(metadata(ingest(tmp_path / "root", {"source": str(folder)}), "bird_archive"))
    assert found[0]["fingerprint"] != found[1]["fingerprint"]
    assert found[1]["files read"] == 1


def test_files_that_change_between_two_stages_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    make_database(folder / "dev_databases" / "shop" / "shop.sqlite")
    file = write(folder / "dev.json", [question(1)])
    archive = {"source": str(folder)}
    assert ingest(tmp_path / "root", archive).success
    write(file, [question(1), question(2)])
    alone = ingest(tmp_path / "root", archive, assets=[bird.bird_questions])
    assert "have changed since bird_archive read them" in failure(alone)
    assert ingest(tmp_path / "root", archive).success
    assert keys(tmp_path / "root") == ["dev/1", "dev/2"]


def test_a_change_within_a_tick_that_sets_its_time_back_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    file = make_database(folder / "dev_databases" / "shop" / "shop.sqlite")
    write(folder / "dev.json", [question(1)])
    first = metadata(ingest(tmp_path / "root", {"source": str(folder)}), "bird_archive")
    stamp = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    second = metadata(ingest(tmp_path / "root", {"source": str(folder)}), "bird_archive")
    assert first["fingerprint"] != second["fingerprint"]


def test_train_and_dev_of_two_archives(tmp_path: Path) -> None:
    config = {
        "splits": ["train", "dev"],
        "train": {"source": str(published(tmp_path / "1", "train"))},
        "dev": {"source": str(published(tmp_path / "2", "dev"))},
    }
    result = ingest(tmp_path / "root", config)
    assert result.success, failure(result)
    assert keys(tmp_path / "root", "train") == ["train/1", "train/2"]
    assert keys(tmp_path / "root", "dev") == ["dev/1", "dev/2"]
    # The same two databases, in two archives: looked into once.
    assert metadata(result, "bird_databases")["inspected now"] == 2


@pytest.mark.parametrize("form", ["json", "jsonl", "url"])
def test_the_filtered_training_questions_with_the_databases_of_the_first(
    tmp_path: Path, form: str
) -> None:
    archive = published(tmp_path, "train")
    rows = [{k: v for k, v in question(7).items() if k != "difficulty"}]
    name = "train-00000-of-00001.jsonl"
    filtered = write(tmp_path / (name if form != "json" else "filtered.json"), rows, form != "json")
    with FileServer(Behaviour(filtered.read_bytes(), kind="text/plain")) as server:
        place = server.url.replace("dev.zip", name) if form == "url" else str(filtered)
        config = {"source": str(archive), "splits": ["train"], "train": {"questions": place}}
        result = ingest(tmp_path / "root", config)
    assert result.success, failure(result)
    assert keys(tmp_path / "root", "train") == ["train/7"]


def test_spider_as_it_is_published(tmp_path: Path) -> None:
    root = tmp_path / "spider_data"
    row = {"db_id": "shop", "query": "SELECT 1", "question": "q", "sql": {"select": []}}
    for name in ("train_spider.json", "train_others.json", "dev.json"):
        write(root / name, [row | {"query_toks": ["SELECT", "1"], "question_toks": ["q"]}])
    for folder in ("database", "test_database"):
        make_database(root / folder / "shop" / "shop.sqlite")
        (root / folder / "shop" / "schema.sql").write_text("CREATE TABLE t (a);")
    result = ingest(tmp_path / "root", {"source": str(tmp_path), "splits": ["train", "dev"]})
    assert result.success, failure(result)
    assert keys(tmp_path / "root", "train") == ["train/0"]
    assert metadata(result, "bird_archive")["train questions"].endswith("train_spider.json")


def test_a_teams_own_lines_name_databases_by_name_and_by_path(tmp_path: Path) -> None:
    team = tmp_path / "team"
    make_database(team / "shop.sqlite", 1)
    make_database(team / "eu" / "sales.db", 2)
    make_database(team / "us" / "sales.db", 3)
    far = make_database(tmp_path / "elsewhere" / "stock.sqlite3", 4)
    names = ["shop", "shop.sqlite", "./eu/sales.db", "us/sales.db", str(far), "gone", "no/such.db"]
    write(team / "dev.jsonl", [team_row(name, n) for n, name in enumerate(names)], lines=True)
    result = ingest(tmp_path / "root", {"source": str(team)}, missing_databases=0.5)
    assert result.success, failure(result)
    found = data.load_questions(tmp_path / "root", "dev")
    assert [(q.db_id, q.database.name) for q in found] == [
        ("shop", "shop.sqlite"),
        ("shop", "shop.sqlite"),
        ("./eu/sales.db", "sales.db"),
        ("us/sales.db", "sales.db"),
        ("stock", "stock.sqlite3"),
    ]
    problems = [row for row in data.load_rows(tmp_path / "root", "dev") if row["reason"]]
    assert [row["reason"] for row in problems] == ["db_missing"] * 2
    assert "'no/such.db'" in problems[1]["detail"]
    assert metadata(result, "bird_databases")["rows"] == 10


def test_questions_and_databases_of_a_team_in_two_places(tmp_path: Path) -> None:
    make_database(tmp_path / "warehouse" / "shop.db")
    file = write(tmp_path / "asked.jsonl", [team_row("shop", 1)], lines=True)
    config = {"source": str(tmp_path / "warehouse"), "dev": {"questions": str(file)}}
    result = ingest(tmp_path / "root", config)
    assert result.success, failure(result)
    assert keys(tmp_path / "root") == ["dev/0"]


def test_an_archives_rows_cannot_name_databases_outside_of_it(tmp_path: Path) -> None:
    secret = make_database(tmp_path / "secret.sqlite")
    inside = make_database(tmp_path / "made.sqlite")
    names = [str(secret), "../../../secret.sqlite", "data/../../../../secret.sqlite", "in.sqlite"]
    lines = "\n".join(json.dumps(team_row(name, n)) for n, name in enumerate(names))
    with zipfile.ZipFile(tmp_path / "team.zip", "w") as file:
        file.writestr("team/dev.jsonl", lines)
        file.write(inside, "team/in.sqlite")
    config = {"source": str(tmp_path / "team.zip")}
    result = ingest(tmp_path / "root", config, missing_databases=1.0)
    assert result.success, failure(result)
    assert keys(tmp_path / "root") == ["dev/3"]
    assert metadata(result, "bird_archive")["dev databases"] == 1


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"source": "{here}/nothing"}, "does not exist; give a folder"),
        ({"source": "{here}/text.zip"}, "is not a .zip: it is damaged, or something else; give"),
        ({"source": "{here}/packed.tgz"}, "is not a .zip: it is compressed (gzip); unpack it"),
        ({"source": "{here}/packed.7z"}, "is not a .zip: it is compressed (7z); unpack it"),
        ({"source": "{here}/dev.json"}, "name a questions file as 'questions'"),
        ({"source": "{here}/good.zip", "sha256": "abc"}, "64 hexadecimal digits, not 'abc'"),
        ({"source": "{here}/good.zip", "sha256": "0" * 64}, "instead of 000"),
        ({"source": "{here}/good.zip", "splits": ["tests"]}, "Unknown split 'tests'"),
        ({"source": "{here}/good.zip", "splits": []}, "No split to ingest"),
        (
            {"source": "{here}/good.zip", "dev": {"questions": "{here}/no.json"}},
            "no.json does not exist",
        ),
        ({"source": "{here}/good.zip", "splits": ["train"]}, "No train questions"),
        ({"source": "s3://bucket/dev.zip"}, "not an http or https address"),
    ],
)
def test_wrong_sources_are_reported_in_a_sentence(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    shutil.copy(published(tmp_path), tmp_path / "good.zip")
    (tmp_path / "text.zip").write_text("this is text")
    (tmp_path / "packed.tgz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "packed.7z").write_bytes(b"7z\xbc\xaf\x27\x1c")
    write(tmp_path / "dev.json", [question(1)])
    filled = json.loads(json.dumps(config).replace("{here}", str(tmp_path)))
    result = ingest(tmp_path / "root", filled)
    assert not result.success and words in failure(result), failure(result)
    assert not latest_dataset_file(tmp_path / "root").exists()


def test_the_checksum_of_an_archive_is_checked(tmp_path: Path) -> None:
    archive = published(tmp_path)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert ingest(tmp_path / "root", {"source": str(archive), "sha256": digest.upper()}).success


def test_a_damaged_download_is_not_kept(tmp_path: Path) -> None:
    """A server that announces too few bytes gives a cut archive; the next run gets it again."""
    content = published(tmp_path).read_bytes()
    with FileServer(Behaviour(content, announced=-200)) as server:
        broken = ingest(tmp_path / "root", {"source": server.url})
        assert not broken.success and "cannot be unpacked" in failure(broken)
        server.now.announced = 0
        assert ingest(tmp_path / "root", {"source": server.url}).success


def test_a_web_page_instead_of_a_download_is_reported_and_not_kept(tmp_path: Path) -> None:
    """Google Drive and hubs send pages with status 200, some as octets."""
    page = b"<!DOCTYPE html><title>Google Drive - Virus scan warning</title>"
    with FileServer(Behaviour(page, kind="application/octet-stream")) as server:
        broken = ingest(tmp_path / "root", {"source": server.url})
        assert "is not a .zip: it is a web page" in failure(broken)
        server.now.content = published(tmp_path).read_bytes()
        assert ingest(tmp_path / "root", {"source": server.url}).success


@pytest.mark.parametrize(
    ("after", "problem"), [("bird_archive", ""), ("bird_questions", "ingested")]
)
def test_two_ingestions_into_one_root_do_not_mix(tmp_path: Path, after: str, problem: str) -> None:
    """Another dataset is ingested into the same root in the middle of a run."""
    for name in ("mine", "other"):
        make_database(
            tmp_path / name / "dev_databases" / "shop" / "shop.sqlite", 1 + (name == "mine")
        )
        write(tmp_path / name / "dev.json", [question(1 if name == "mine" else 2)])

    @dg.asset(deps=[after], op_tags={"dagster/priority": "9"})
    def meanwhile() -> None:
        assert ingest(tmp_path / "root", {"source": str(tmp_path / "other")}).success

    everything = [*ASSETS, bird.gold_results, known_issues, meanwhile]
    result = ingest(tmp_path / "root", {"source": str(tmp_path / "mine")}, everything)
    mine = data.load_dataset(tmp_path / "root", metadata(result, "bird_archive")["fingerprint"])
    assert [q.key for q in data.load_questions(tmp_path / "root", "dev", mine)] == ["dev/1"]
    assert metadata(result, "bird_databases")["rows"] == 2
    assert (data.split_folder(tmp_path / "root", mine, "dev") / data.GOLDS).is_file()
    assert result.success == (not problem)
    if problem:
        assert f"has {problem} {tmp_path / 'other'} into" in failure(result)


def test_an_interrupted_download_is_resumed_by_the_next_run(tmp_path: Path) -> None:
    content = published(tmp_path).read_bytes()
    with FileServer(Behaviour(content, breaks=[1000], statuses=[])) as server:
        assert ingest(tmp_path / "root", {"source": server.url}).success
        assert server.requests[1]["Range"] == "bytes=1000-"
