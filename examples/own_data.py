"""Write question files and databases like a team's own: ``python -m examples.own_data FOLDER``.

``train.jsonl`` and ``dev.jsonl`` give their databases by path. The content is generated, in a
phrasing that the pocket policy can learn, so that training on it works on a CPU.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.datasets.reading.layout import find_split
from text2sql.datasets.reading.questions import load_records
from text2sql.questions import Question

SEED = 7
SIZES = CorpusSizes(train=256, new_databases=64, unseen_words=0, general=0)


def main(folder: Path) -> None:
    """Write the two question files and their databases below ``folder``."""
    with tempfile.TemporaryDirectory() as made:
        corpus = generate(Path(made) / "corpus", SEED, SIZES)
        for split in ("train", "dev"):
            records = load_records(find_split(corpus, split))
            rows = [_row(record.question, folder, split) for record in records]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
            print(f"{folder / split}.jsonl: {len(rows)} questions")


def _row(question: Question, folder: Path, split: str) -> dict[str, str]:
    """Return one line of the file; copy the question's database beside it."""
    database = Path("databases") / split / f"{question.db_id}.sqlite"
    (folder / database).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(question.database, folder / database)
    return {
        "question": question.question,
        "database": str(database),
        "sql": question.sql,
        "evidence": question.evidence,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
