"""Reward strength: near-misses, which are equivalent by construction, and what survives."""

import json
import sqlite3
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets.data import bird, strength
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from tests.support.splits import load_split
from text2sql.datasets import stored as data
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.reading.questions import read_records
from text2sql.datasets.strength import load_strength, require_strength
from text2sql.errors import Text2SqlError
from text2sql.judge.strength.keys import read_keys
from text2sql.judge.strength.measure import (
    NearMiss,
    NearMissOutcome,
    Strength,
    measure_strength,
    near_misses,
)
from text2sql.judge.verdicts import run_gold
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, Status
from text2sql.training.difficulty import Difficulty, Kind, mark_weak

TABLES = """
CREATE TABLE hero (id INTEGER PRIMARY KEY, name TEXT, height INT, born TEXT, side_id INT);
CREATE TABLE side (id INTEGER PRIMARY KEY, label TEXT UNIQUE, rank INT NOT NULL);
CREATE TABLE power (hero_id INT, label TEXT);
INSERT INTO side VALUES (1, 'good', 1), (2, 'bad', 2), (3, 'none', 3);
INSERT INTO hero VALUES (1, 'Ann', 180, '2001-05-01', 1), (2, 'Bob', 200, '2002-01-01', 2),
  (3, 'Cy', NULL, NULL, NULL), (4, 'Ann', 170, '2002-12-31', 9), (5, 'Di', 200, NULL, 1);
INSERT INTO power VALUES (1, 'fly'), (1, 'swim'), (2, 'fly'), (7, 'fly'), (NULL, 'run');
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("strength") / "heroes.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
    connection.close()
    return path


@pytest.fixture(scope="module")
def keys(database, sandbox):
    return read_keys(database, sandbox)


def ask(database: Path, sql: str, key: str = "dev/0") -> Question:
    return Question(key, "heroes", database, "Which?", sql=sql)


def measure(database: Path, sandbox: Sandbox, *queries: str) -> list[Strength]:
    questions = [ask(database, sql, f"dev/{number}") for number, sql in enumerate(queries)]
    golds = run_golds(questions, sandbox, Limits())
    return list(measure_strength(questions, golds, sandbox, Limits()))


def changes(keys, sql: str, kind: str) -> dict[str, str]:
    """Return the near-misses of one kind: the change, and why it is neutral."""
    return {miss.change: miss.detail for miss in near_misses(sql, keys)[1] if miss.kind == kind}


def test_keys_are_what_sqlite_enforces(keys):
    assert keys.columns["power"] == {"hero_id", "label"}
    assert keys.unique == {("hero", "id"), ("side", "id"), ("side", "label")}
    assert keys.filled == {("hero", "id"), ("side", "id"), ("side", "rank")}


@pytest.mark.parametrize(
    ("end", "kind", "expected"),
    [
        ("WHERE height < 180", "comparison", ["height < 180 -> height <= 180"]),
        ("WHERE height >= 1", "comparison", ["height >= 1 -> height > 1"]),
        ("WHERE height = 1", "comparison", ["height = 1 -> height <> 1"]),
        (
            "WHERE height BETWEEN 1 AND 9",
            "comparison",
            ["height BETWEEN 1 AND 9 -> (height > 1 AND height < 9)"],
        ),
        ("ORDER BY height DESC LIMIT 1", "order", ["height DESC -> height ASC"]),
        ("ORDER BY height LIMIT 1", "order", ["height -> height DESC"]),
        ("ORDER BY height LIMIT 2", "limit", ["LIMIT 2 -> LIMIT 3", "without LIMIT 2"]),
        ("WHERE height > 5", "condition", ["without WHERE height > 5"]),
        (
            "WHERE height > 5 AND (id = 1 OR id = 2)",
            "condition",
            ["id = 1", "id = 2", "height > 5", "(id = 1 OR id = 2)"],
        ),
        ("WHERE id = 1 OR id = 2", "connective", ["id = 1 OR id = 2 -> id = 1 AND id = 2"]),
        ("WHERE height = 180", "literal", ["180 -> 181"]),
        ("WHERE height > 18.5", "literal", ["18.5 -> 28.5"]),
        ("WHERE born > '2001-05-01'", "literal", ["'2001-05-01' -> '2002-05-01'"]),
        ("WHERE name LIKE 'A%'", "literal", ["'A%' -> '%A%'"]),
        ("WHERE name LIKE '%A%'", "literal", ["'%A%' -> 'A%'"]),
        ("WHERE name = 'Ann'", "literal", []),
    ],
)
def test_each_kind_of_near_miss(keys, end, kind, expected):
    found = changes(keys, f"SELECT name FROM hero {end}", kind)
    if kind == "condition":
        expected = [text if text.startswith("without") else f"without {text}" for text in expected]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("SUM(height)", ["AVG(height)", "COUNT(height)"]),
        ("AVG(height)", ["SUM(height)"]),
        ("MAX(height)", ["MIN(height)"]),
        ("MAX(height, id)", []),
        ("COUNT(*)", []),
        ("COUNT(name)", ["COUNT(DISTINCT name)"]),
        ("COUNT(DISTINCT name)", ["COUNT(name)"]),
    ],
)
def test_aggregates_that_are_confused(keys, aggregate, expected):
    found = changes(keys, f"SELECT {aggregate} FROM hero", "aggregate")
    assert sorted(found) == [f"{aggregate} -> {other}" for other in expected]


@pytest.mark.parametrize(
    ("sql", "kind", "reason"),
    [
        ("SELECT name FROM hero", "distinct", "a set of rows has none twice"),
        ("SELECT DISTINCT name FROM hero", "distinct", "a set of rows has none twice"),
        ("SELECT COUNT(*) FROM hero", "distinct", "the query returns one row"),
        ("SELECT id, name FROM hero LIMIT 3", "distinct", "no row can occur twice"),
        ("SELECT name FROM hero GROUP BY name LIMIT 3", "distinct", "no row can occur twice"),
        ("SELECT name FROM hero LIMIT 3", "distinct", ""),
        ("SELECT name FROM hero ORDER BY height", "order", "a set of rows has no order"),
        ("SELECT COUNT(*) FROM hero ORDER BY id LIMIT 1", "order", "the query returns one row"),
        ("SELECT COUNT(id) FROM hero WHERE height > 1", "aggregate", "no value can occur twice"),
        (
            "SELECT COUNT(h.id) FROM hero h JOIN side s ON s.id = h.side_id",
            "aggregate",
            "no value can occur twice",
        ),
        ("SELECT COUNT(h.id) FROM hero h JOIN power p ON p.hero_id = h.id", "aggregate", ""),
        (
            "SELECT h.name FROM hero h JOIN side s ON s.id = h.side_id WHERE s.label = 'bad'",
            "join",
            "a later condition rejects the unmatched rows",
        ),
        ("SELECT h.name FROM hero h JOIN side s ON s.id = h.side_id", "join", ""),
        (
            "SELECT h.name FROM hero h JOIN side s ON s.id = h.side_id WHERE h.height > 1",
            "join",
            "",
        ),
    ],
)
def test_what_is_equivalent_by_construction(keys, sql, kind, reason):
    assert set(changes(keys, sql, kind).values()) == {reason}


def test_an_implied_filter_is_neutral_and_a_needed_one_is_not(keys):
    sql = "SELECT name FROM hero WHERE height IS NOT NULL AND height > 5 AND born IS NOT NULL"
    found = changes(keys, sql, "condition")
    assert found.pop("without NOT height IS NULL").startswith("the schema or another condition")
    assert set(found.values()) == {""}


def test_first_row_of_a_scalar_subquery(keys):
    sql = "SELECT name FROM hero WHERE height = (SELECT height FROM hero ORDER BY born LIMIT 1)"
    assert set(changes(keys, sql, "limit").values()) == {"only the first row is taken"}
    assert set(changes(keys, sql, "order").values()) == {""}


def test_joining_equalities_are_left_alone(keys):
    sql = "SELECT h.name FROM hero h, side s WHERE h.side_id = s.id AND s.rank > 1"
    unchanged, found = near_misses(sql, keys)
    assert unchanged.endswith("FROM hero AS h, side AS s WHERE h.side_id = s.id AND s.rank > 1")
    assert all("h.side_id = s.id" in miss.sql for miss in found)


def test_text_in_double_quotes_is_not_a_column(keys):
    found = changes(keys, 'SELECT name FROM hero WHERE name = "Ann"', "comparison")
    assert found == {'name = "Ann" -> name <> "Ann"': ""}


def test_near_misses_are_distinct_and_differ(keys):
    sql = "SELECT name FROM hero WHERE id = 1 AND id = 1 LIMIT 2"
    unchanged, found = near_misses(sql, keys)
    texts = [miss.sql for miss in found]
    assert len(set(texts)) == len(texts) and unchanged not in texts


@pytest.mark.parametrize(
    "sql", ["SELEC name", "SELECT 1; SELECT 2", "", "DELETE FROM hero", "SELECT (" * 50]
)
def test_a_query_that_sqlglot_cannot_read_is_an_error(keys, sql):
    with pytest.raises(Text2SqlError, match="sqlglot"):
        near_misses(sql, keys)


def test_survivors_are_listed_and_scored(database, sandbox):
    (found,) = measure(database, sandbox, "SELECT name FROM hero WHERE height > 190")
    outcomes = {tried.change: tried.outcome for tried in found.tried}
    assert outcomes == {
        "height > 190 -> height >= 190": NearMissOutcome.SURVIVED,
        "without WHERE height > 190": NearMissOutcome.TOLD_APART,
        "with DISTINCT in SELECT name": NearMissOutcome.NEUTRAL,
        "190 -> 290": NearMissOutcome.TOLD_APART,
    }
    assert found.score == pytest.approx(2 / 3)
    assert Strength.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_questions_without_a_score_say_why(database, sandbox):
    broken, plain = measure(database, sandbox, "SELECT age FROM hero", "SELECT name FROM hero")
    assert (broken.score, broken.reason) == (None, "the gold query did not run (error)")
    assert (plain.score, plain.reason) == (None, "every near-miss is equivalent by construction")


def test_gold_that_sqlglot_misreads_has_no_score(database, sandbox):
    # SQLite casts a text to DATE as to a number, and returns 2001; sqlglot writes DATE(born).
    (found,) = measure(database, sandbox, "SELECT CAST(born AS DATE) FROM hero WHERE id = 1")
    assert found.score is None and not found.tried
    assert found.reason == "written by sqlglot the gold query is not the same (wrong)"


def test_near_misses_that_fail_do_not_count(database, sandbox):
    slow = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
        "SELECT COUNT(*) FROM n"
    )
    question = ask(database, slow)
    gold = run_gold(question, sandbox)
    (found,) = measure_strength([question], {question.key: gold}, sandbox, Limits(seconds=1))
    failed = [tried for tried in found.tried if tried.outcome is NearMissOutcome.FAILED]
    assert [tried.change for tried in failed] == ["without WHERE i < 9"]
    assert "longer than 1 s" in failed[0].detail
    assert found.score == found.count(NearMissOutcome.TOLD_APART) / 3


_COLUMNS = st.sampled_from(["h.id", "h.name", "h.height", "s.rank", "s.label", "h.side_id"])
_TESTS = st.sampled_from(
    (
        "h.height > 175",
        "s.rank < 3",
        "h.name = 'Ann'",
        "s.label IS NOT NULL",
        "s.label IS NULL",
        "h.born LIKE '2002%'",
        "h.height IS NOT NULL",
        "h.id IN (1, 2, 4)",
        "s.id IN (SELECT side_id FROM hero)",
        "NOT s.rank IN (2)",
        "(s.rank = 1 OR h.id = 3)",
        "h.side_id BETWEEN 1 AND 2",
        "NOT h.side_id BETWEEN 1 AND s.rank",
        "COALESCE(s.rank, 0) < 2",
    )
)
_AROUND = st.sampled_from(
    (
        "{}",
        "SELECT * FROM ({}) AS q",
        "SELECT COUNT(*) FROM ({}) AS q",
        "SELECT * FROM ({}) AS q LIMIT 2",
        "WITH q AS ({}) SELECT * FROM q",
        "SELECT name FROM hero WHERE EXISTS ({})",
        "SELECT * FROM ({0}) AS q UNION ALL SELECT * FROM ({0}) AS r",
    )
)
_END = st.sampled_from(
    (
        "",
        " ORDER BY h.id",
        " ORDER BY h.height DESC, h.id LIMIT 2",
        " ORDER BY h.id LIMIT 1",
        " GROUP BY h.name",
        " GROUP BY s.id HAVING COUNT(*) > 1",
    )
)


@st.composite
def queries(draw):
    """Draw a query on heroes and their sides."""
    columns = draw(st.lists(_COLUMNS, min_size=1, max_size=2, unique=True))
    wrap = draw(st.sampled_from(["{}", "COUNT({})", "COUNT(DISTINCT {})", "MAX({})", "SUM({})"]))
    join = draw(st.sampled_from(["JOIN", "LEFT JOIN", ","]))
    tests = draw(st.lists(_TESTS, max_size=3))
    distinct = draw(st.sampled_from(["", "DISTINCT "]))
    if join == ",":
        source, tests = "hero AS h, side AS s", ["h.side_id = s.id", *tests]
    else:
        source = f"hero AS h {join} side AS s ON h.side_id = s.id"
    where = f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(tests)}" if tests else ""
    selected = ", ".join(f"{wrap.format(column)} AS c{n}" for n, column in enumerate(columns))
    query = f"SELECT {distinct}{selected} FROM {source}{where}{draw(_END)}"
    return draw(_AROUND).format(query)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sql=queries())
def test_neutral_near_misses_return_the_same_set_and_all_are_sql(database, sandbox, keys, sql):
    rewritten, found = near_misses(sql, keys)
    texts = [sql, rewritten, *(miss.sql for miss in found)]
    gold, unchanged, *results = sandbox.execute_many([(database, text) for text in texts])
    assert gold.status is Status.OK
    assert unchanged.digest == gold.digest
    for miss, result in zip(found, results, strict=True):
        assert result.status is Status.OK, (miss, result.error)
        assert not miss.outcome or result.digest == gold.digest, miss


def all_near_misses(questions: list[Question], sandbox: Sandbox) -> list[tuple[Question, NearMiss]]:
    known = {database: read_keys(database, sandbox) for database in {q.database for q in questions}}
    return [(q, miss) for q in questions for miss in near_misses(q.sql, known[q.database])[1]]


def real_questions(shared_data: Path) -> list[Question]:
    """Superhero's 52 questions of BIRD's mini-dev, and Spider's dev questions."""
    folder = shared_data / "bird"
    records = read_records(folder / "mini_dev_sqlite.json", folder / "databases", "dev")
    superhero = [record.question for record in records if record.reason is None]
    assert len(superhero) == 52
    return superhero + load_split(shared_data / "spider", "dev").questions


def test_neutral_near_misses_of_real_queries_return_golds_result(shared_data, sandbox):
    neutral = [
        (question, miss)
        for question, miss in all_near_misses(real_questions(shared_data), sandbox)
        if miss.outcome
    ]
    golds = sandbox.execute_many([(q.database, q.sql) for q, _ in neutral], strict_text=True)
    results = sandbox.execute_many([(q.database, m.sql) for q, m in neutral], strict_text=True)
    assert len(neutral) > 700
    for place, gold, result in zip(neutral, golds, results, strict=True):
        assert gold.digest == result.digest, place


def test_sqlglot_reads_every_real_gold_query(shared_data):
    rows = json.loads((shared_data / "bird" / "mini_dev_sqlite.json").read_text())
    schemas = shared_data / "bird" / "schema_only"
    with Sandbox(1) as box:
        known = {file.stem: read_keys(file, box) for file in schemas.glob("*.sqlite")}
    counts = [len(near_misses(r["SQL"], known[r["db_id"]])[1]) for r in rows if r["db_id"] in known]
    assert len(counts) > 400 and min(counts) > 0  # fmt: skip


def ingest(source: Path, root: Path, **seconds):
    """Ingest superhero and measure its reward strength."""
    assets = [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results]
    ops = {
        "bird_archive": {"config": {"source": str(source), "splits": ["dev"]}},
        "reward_strength": {"config": seconds},
    }
    return dg.materialize(
        [*assets, strength.reward_strength],
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=2)},
        run_config={"ops": ops},
        raise_on_error=False,
    )


@pytest.fixture(scope="module")
def dataset(database, tmp_path_factory):
    """A dataset in BIRD's layout."""
    folder = tmp_path_factory.mktemp("dataset")
    place = folder / "dev_databases" / "heroes"
    place.mkdir(parents=True)
    (place / "heroes.sqlite").write_bytes(database.read_bytes())
    golds = [
        "SELECT name FROM hero WHERE height > 190",
        "SELECT name FROM hero ORDER BY height DESC LIMIT 1",
        "SELECT name FROM hero",
        "SELECT h.name FROM hero h JOIN side s ON s.id = h.side_id WHERE s.rank >= 1",
    ]
    rows = [
        {"question_id": n, "db_id": "heroes", "question": f"Question {n}?", "SQL": sql}
        for n, sql in enumerate(golds)
    ]
    (folder / "dev.json").write_text(json.dumps(rows))
    return folder


def metadata_of(result) -> dict:
    (event,) = result.asset_materializations_for_node("reward_strength")
    return {name: value.value for name, value in event.metadata.items()}


def test_asset_measures_once_and_shows_the_weakest(dataset, tmp_path):
    result = ingest(dataset, tmp_path)
    assert result.success
    shown = metadata_of(result)
    assert shown["questions with a score"] == 3
    weakest = [record.data for record in shown["weakest questions"].records]
    assert weakest[0]["returns the same"] == "height > 190 -> height >= 190"
    assert [row["key"] for row in weakest] == ["dev/0", "dev/3"]
    (unscored,) = [record.data for record in shown["questions without a score"].records]
    assert (unscored["first"], unscored["questions"]) == ("dev/2", "1")
    found = load_strength(tmp_path, "dev")
    assert set(found) == {f"dev/{n}" for n in range(4)} and found["dev/2"] is None
    folder = data.dataset_folder(tmp_path, data.load_current(tmp_path))
    assert (folder / "strength.parquet").is_file() and (folder / "strength.png").is_file()
    written = (folder / "dev" / "strength.jsonl").stat().st_mtime_ns
    again = metadata_of(ingest(dataset, tmp_path))
    assert (folder / "dev" / "strength.jsonl").stat().st_mtime_ns == written
    assert again["mean strength"] == shown["mean strength"]
    ingest(dataset, tmp_path, seconds=5.0)
    assert (folder / "dev" / "strength.jsonl").stat().st_mtime_ns != written


def test_strength_is_needed_only_for_a_minimum(dataset, tmp_path):
    root = ArtifactRoot(root=str(tmp_path))
    assets = [bird.bird_archive, bird.bird_questions, bird.bird_databases]
    ops = {"bird_archive": {"config": {"source": str(dataset), "splits": ["dev"]}}}
    resources = {"root": root, "sandbox": SandboxResource(workers=1)}
    assert dg.materialize(assets, resources=resources, run_config={"ops": ops}).success
    assert load_strength(tmp_path, "dev") == {}
    with pytest.raises(Text2SqlError, match="materialize reward_strength first"):
        require_strength(tmp_path, "dev")


def test_weak_and_unscored_questions_leave_training_only():
    kinds = (Kind.TRAINABLE, Kind.TRAINABLE, Kind.TRAINABLE, Kind.TOO_HARD)
    ratings = [Difficulty(f"train/{n}", 3, 8, kind) for n, kind in enumerate(kinds)]
    scores = {"train/0": 0.9, "train/1": 0.5, "train/2": None, "train/3": 0.1}
    found = [rating.kind for rating in mark_weak(ratings, scores, 0.75)]
    assert found == [Kind.TRAINABLE, Kind.WEAK, Kind.WEAK, Kind.TOO_HARD]


def test_score_counts_what_ran():
    outcomes = [
        NearMissOutcome.TOLD_APART,
        NearMissOutcome.SURVIVED,
        NearMissOutcome.FAILED,
        NearMissOutcome.NEUTRAL,
    ]
    tried = tuple(NearMiss("limit", "", "", outcome) for outcome in outcomes)
    assert Strength("dev/0", tried).score == 0.5
    assert Strength("dev/0", tried[2:]).reason == "no near-miss ran"
    assert Strength("dev/0").reason == "the query has no near-miss"
