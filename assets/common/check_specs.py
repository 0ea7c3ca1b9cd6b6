"""What each check of the data and of the answers says is true, as Dagster shows it."""

from __future__ import annotations

import dagster as dg

DESCRIPTIONS = {
    "questions_valid": "Every question has an id of its own, a database, words and SQL, and there "
    "are neither too few nor too many.",
    "db_ids_resolve": "Every question's database is there; hardly any may be missing.",
    "questions_apart": "No dev question is one that training holds too.",
    "questions_tidy": "No question is there twice, and no text is the word nan, none or null.",
    "databases_sound": "Every database opens, passes SQLite's quick check and has tables.",
    "descriptions_match": "The descriptions name tables and columns that the databases have, "
    "each once and in Unicode.",
    "databases_apart": "No dev database has the content of one that training has.",
    "gold_runs": "Gold queries run, read only, within their time; hardly any may fail.",
    "gold_answers": "Every gold query returns rows, and soon.",
    "gold_determined": "What gold returns is determined by the data: no tie is cut, no order left "
    "open.",
    "databases_found": "The database of every question that people ask is there.",
    "published_sound": "What is published has SQL and rows and was agreed on; nothing else is.",
    "questions_answered": "No question failed, and enough of them were answered.",
    "candidates_agree": "The candidates of a question mostly agree.",
    "answers_steady": "No answer changes while its data does not.",
    "verified_hold": "What the candidates agree on equals what the verified SQL returns.",
    "delivered": "Everybody who asked for the report was sent it.",
}


def check_specs(asset: str, **blocking: bool) -> list[dg.AssetCheckSpec]:
    """Return the checks of an asset by name: whether each stops what follows."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=DESCRIPTIONS[name], blocking=blocks)
        for name, blocks in blocking.items()
    ]
