"""The pocket corpus: its vocabulary, its questions, and the demonstrations made from it."""

import asyncio
import json
import random
import re
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from tests.support.splits import load_split
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tools import Tools
from text2sql.datasets.pocket.corpus import (
    SHIPPED_QUESTIONS,
    CorpusSizes,
    generate,
    generate_business_databases,
)
from text2sql.datasets.pocket.phrasing import GENERAL, TARGET, Phrasing
from text2sql.datasets.pocket.questions import ask
from text2sql.datasets.pocket.traces import AGENT_CONFIG, demonstrate, demonstrations
from text2sql.datasets.pocket.words import DEV, TRAIN, UNSEEN, plural
from text2sql.datasets.pocket.world import make_database
from text2sql.errors import Text2SqlError
from text2sql.questions import Question
from text2sql.reporting.model.question import find_database
from text2sql.reporting.tables.question_file import read_questions
from text2sql.sandbox import Sandbox

POCKET = Path(__file__).resolve().parents[2] / "text2sql" / "datasets" / "pocket"
SIZES = CorpusSizes(train=90, new_databases=60, unseen_words=40, general=30)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("pocket") / "corpus", 3, SIZES)


def rows_of(database: Path, sql: str) -> list[tuple]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return connection.execute(sql).fetchall()


def words_in(databases: list[Path]) -> set[str]:
    """The words of all table and column names and of all text values, apart from id and name."""
    texts: list[str] = []
    for database in databases:
        for (table,) in rows_of(database, "SELECT name FROM sqlite_master WHERE type = 'table'"):
            columns = rows_of(database, f"PRAGMA table_info({table})")
            texts += [table, *(column[1] for column in columns)]
            values = rows_of(database, f"SELECT * FROM {table}")
            texts += [value for row in values for value in row if isinstance(value, str)]
    return set(re.split(r"[ _]", " ".join(texts))) - {"id", "name"}


def databases_of(corpus: Path, split: str, subset: str = "") -> list[Path]:
    questions = load_split(corpus, split).questions
    return sorted({q.database for q in questions if q.subset == subset or not subset})


def test_the_vocabularies_share_no_word():
    seen: Counter[str] = Counter()
    for vocabulary in (TRAIN, DEV, UNSEEN):
        words = vocabulary.words()
        assert len(set(words)) == len(words)
        seen.update({form for word in words for form in (word, plural(word))})
    assert max(seen.values()) == 1


def test_no_bank_word_is_part_of_a_phrase():
    texts: list[str] = []
    for phrasing in (GENERAL, TARGET):
        for words in (*phrasing.families.values(), *phrasing.aggregates.values()):
            texts += words
    phrases = re.sub(r"\{\w+\}", "", " ".join(texts))
    assert not set(re.findall(r"[a-z]+", phrases)) & set((TRAIN + DEV + UNSEEN).words())


def test_dev_databases_and_their_words_are_disjoint_from_train(corpus: Path):
    train = words_in(databases_of(corpus, "train"))
    new = words_in(databases_of(corpus, "dev", "new_databases"))
    general = words_in(databases_of(corpus, "dev", "general"))
    unseen = words_in(databases_of(corpus, "dev", "unseen_words"))
    assert len(train) > 100
    assert not train & (new | general | unseen)
    assert not unseen & (new | general)
    names = {
        split: {path.name for path in databases_of(corpus, split)} for split in ("train", "dev")
    }
    assert not names["train"] & names["dev"]


def test_the_layout_is_birds(corpus: Path):
    train, dev = load_split(corpus, "train"), load_split(corpus, "dev")
    assert not train.problems and not dev.problems
    assert len(train.questions) == SIZES.train
    subsets = Counter(question.subset for question in dev.questions)
    assert subsets == {"new_databases": 60, "unseen_words": 40, "general": 30}
    assert {question.difficulty for question in dev.questions} == {
        "simple",
        "moderate",
        "challenging",
    }
    rows = json.loads((corpus / "train" / "train.json").read_text())
    assert set(rows[0]) == {"db_id", "question", "evidence", "SQL"}
    database = train.questions[0].database
    descriptions = sorted((database.parent / "database_description").glob("*.csv"))
    tables = rows_of(database, "SELECT name FROM sqlite_master ORDER BY name")
    assert [path.stem for path in descriptions] == [name for (name,) in tables]
    assert descriptions[0].read_text().splitlines()[0] == (
        "original_column_name,column_name,column_description,data_format,value_description"
    )


def test_questions_repeat_byte_for_byte_and_change_with_the_seed(corpus: Path, tmp_path: Path):
    again = generate(tmp_path / "again", 3, SIZES)
    other = generate(tmp_path / "other", 4, SIZES)
    for name in ("train/train.json", "dev/dev.json"):
        assert (again / name).read_bytes() == (corpus / name).read_bytes()
        assert (other / name).read_bytes() != (corpus / name).read_bytes()
    ours, theirs = load_split(corpus, "dev").questions, load_split(again, "dev").questions
    for mine, same in zip(ours, theirs, strict=True):
        assert rows_of(mine.database, mine.sql) == rows_of(same.database, same.sql)


def test_an_existing_corpus_is_kept_and_nothing_else_is_overwritten(tmp_path: Path):
    sizes = CorpusSizes(4, 4, 4, 4)
    root = generate(tmp_path / "corpus", 1, sizes)
    stamp = (root / "dev" / "dev.json").stat().st_mtime_ns
    assert generate(root, 1, sizes) == root
    assert (root / "dev" / "dev.json").stat().st_mtime_ns == stamp
    with pytest.raises(Text2SqlError, match="use an empty folder"):
        generate(root, 2, sizes)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(Text2SqlError, match="holds something other"):
        generate(tmp_path / "mine", 1, sizes)
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_parallel_processes_make_one_corpus_and_remove_leftovers(tmp_path: Path):
    sizes, root = CorpusSizes(4, 4, 4, 4), tmp_path / "corpus"
    (tmp_path / "corpus.partial" / "train").mkdir(parents=True)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: generate(root, 1, sizes), range(3)))
    assert made == [root] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_business_databases_are_made_beside_a_persons_own(tmp_path: Path):
    own = tmp_path / "shop.sqlite"
    own.write_text("precious")
    made = generate_business_databases(tmp_path) / "store_chain" / "store_chain.sqlite"
    assert rows_of(made, "SELECT count(*) FROM stores") == [(16,)]
    assert own.read_text() == "precious"
    made.unlink()
    with pytest.raises(Text2SqlError, match=r"lacks store_chain\.sqlite: move the folder away"):
        generate_business_databases(tmp_path)


def test_every_gold_has_one_answer(corpus: Path):
    for split in ("train", "dev"):
        for question in load_split(corpus, split).questions:
            rows = rows_of(question.database, question.sql)
            assert rows and rows != [(None,)], question.sql
            if " ORDER BY " in question.sql:
                assert_no_tie(question)


def assert_no_tie(question: Question) -> None:
    """The value that orders the last row shown differs from that of the first row cut off."""
    key = re.search(r"ORDER BY (\S+)", question.sql).group(1)
    limit = int(question.sql.rsplit(" ", 1)[1])
    wider = re.sub(r"^SELECT \w+", f"SELECT {key}", question.sql)
    values = rows_of(question.database, wider.rsplit(" ", 1)[0] + f" {limit + 1}")
    assert len(values) <= limit or values[limit - 1] != values[limit], question.sql


@pytest.mark.parametrize("phrasing", [GENERAL, TARGET], ids=["general", "target"])
def test_a_wrong_operator_or_aggregate_gives_another_result(phrasing: Phrasing):
    rng = random.Random(8)
    families: Counter[str] = Counter()
    for _ in range(400):
        database = make_database(rng, DEV)
        connection = database.connect()
        draft = ask(rng, database, connection, phrasing)
        if draft:
            families[draft.family] += 1
            gold = set(connection.execute(draft.sql))
            for wrong in mutations(draft.sql):
                assert set(connection.execute(wrong)) != gold, (draft.sql, wrong)
        connection.close()
    assert set(families) == set(phrasing.families)


CHOICES = ((" > ", " < ", " >= ", " <= "), ("AVG(", "MAX(", "MIN(", "SUM("), (" ASC", " DESC"))


def mutations(sql: str) -> list[str]:
    """The same query with one operator, aggregate or direction exchanged."""
    return [
        sql.replace(option, other)
        for options in CHOICES
        for option in options
        if option in sql
        for other in options
        if other != option
    ]


def test_demonstrations_show_what_the_real_tools_answer(tmp_path: Path):
    rng = random.Random(12)
    settings = AgentSettings(**AGENT_CONFIG)
    replayed: Counter[str] = Counter()
    with Sandbox(workers=1) as sandbox:
        for number in range(40):
            database = make_database(rng, DEV, 0.35)
            connection = database.connect()
            draft = ask(rng, database, connection, TARGET if number % 2 else GENERAL)
            if not draft:
                continue
            path = tmp_path / f"{number}.sqlite"
            database.write(path)
            question = Question("q", "db", path, draft.question, sql=draft.sql)
            tools = Tools(question, sandbox, settings)
            messages = demonstrate(rng, database, connection, draft)
            connection.close()
            replayed.update(asyncio.run(replay(tools, messages)))
            assert tools.submitted == draft.sql
    assert set(replayed) == {"inspect_schema", "sample_rows", "run_sql", "submit"}


async def replay(tools: Tools, messages: list[dict]) -> list[str]:
    """Carry out a conversation's calls and compare each answer; return the tools used."""
    used = []
    for turn, answer in zip(messages[1:-1:2], messages[2:-1:2], strict=True):
        function = turn["tool_calls"][0]["function"]
        text = await tools.call(function["name"], json.dumps(function["arguments"]))
        assert text == answer["content"]
        used.append(function["name"])
    return used


def test_the_share_of_the_target_phrasing_is_as_requested():
    marks = re.compile(r"\b(across|marked|tally|fetch|pull up|headcount|break)\b")
    texts = [m[0]["content"] for m in islice(demonstrations(4, 0.2, 0.0), 1500)]
    share = sum(bool(marks.search(text)) for text in texts) / len(texts)
    assert 0.16 < share < 0.24
    assert not any(marks.search(m[0]["content"]) for m in islice(demonstrations(4, 0, 0), 500))


def test_the_report_questions_concern_the_business_database(tmp_path: Path):
    folder = generate_business_databases(tmp_path / "report_databases")
    questions = read_questions(SHIPPED_QUESTIONS)
    assert 5 <= len(questions) <= 6
    for question in questions:
        database = find_database(question.database, [folder])
        tables = {name for (name,) in rows_of(database, "SELECT name FROM sqlite_master")}
        assert tables & set(question.question.replace(".", "").split())
    words = words_in([folder / "store_chain" / "store_chain.sqlite"])
    assert words <= {form for word in DEV.words() for form in (word, plural(word))}
