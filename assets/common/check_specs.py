"""The checks of data and answers, with the descriptions that Dagster shows."""

from __future__ import annotations

import dagster as dg

DESCRIPTIONS = {
    "questions_valid": "Every question has an id of its own, a database, words and SQL, and there "
    "are neither too few nor too many.",
    "db_ids_resolve": "Every question's database exists; hardly any may be missing.",
    "questions_apart": "No dev question is also in train.",
    "questions_tidy": "No question occurs twice, and no text is the word nan, none or null.",
    "databases_sound": "Every database opens, passes SQLite's quick check and has tables.",
    "databases_same": "Every database has the tables and rows that its source had before.",
    "descriptions_match": "The descriptions match the databases' tables and columns, each once "
    "and in Unicode.",
    "databases_apart": "No dev database has the same content as one in train.",
    "gold_runs": "Gold queries only read and run within their time limit; hardly any may fail.",
    "gold_answers": "Every gold query returns rows, and quickly.",
    "gold_determined": "The data determines what gold returns: no tie is cut, no order is left "
    "open.",
    "databases_found": "The database of every scheduled question exists.",
    "published_sound": "Published answers have SQL, rows and enough agreement; no others have any.",
    "questions_answered": "No question failed, and enough were answered.",
    "candidates_agree": "The candidates of a question mostly agree.",
    "answers_steady": "No answer changes while its data does not.",
    "verified_hold": "The agreed result equals what the verified SQL returns.",
    "delivered": "The report was sent to everybody who asked for it.",
}


def check_specs(asset: str, **blocking: bool) -> list[dg.AssetCheckSpec]:
    """Return the checks of an asset, given by name and whether each is blocking."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=DESCRIPTIONS[name], blocking=blocks)
        for name, blocks in blocking.items()
    ]
