"""A report's entry for each answer, in words: status, agreement, change, what to distrust."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from text2sql.common.counting import counted
from text2sql.reporting.model.answer import (
    AnswerStatus,
    Change,
    SampledQuery,
    StoredAnswer,
    Verified,
)
from text2sql.reporting.model.diff import Difference

if TYPE_CHECKING:
    from text2sql.reporting.tables.store import ReportingStore

MOST_ROWS = 40
"""Rows of an answer, and of each kind of change, that an entry has; no report shows more."""
_REFUSED = {
    AnswerStatus.LOW_AGREEMENT: "too few candidate queries agree",
    AnswerStatus.REFUTED: "the candidates' result is refuted",
    AnswerStatus.ERROR: "something failed",
}
_CHANGES = {
    Change.FIRST: "first answer",
    Change.SAME: "same as the answer before",
    Change.DATA_CHANGED: "the result changed since the answer before, the SQL did not",
    Change.SQL_CHANGED: "the SQL changed since the answer before, the result did not",
    Change.BOTH: "the SQL and the result changed since the answer before",
}
_VERIFIED = {
    Verified.MATCH: "equals the verified SQL's result",
    Verified.DIFFERS: "differs from the verified SQL's result",
    Verified.ERROR: "the verified SQL did not run",
}


@dataclass(frozen=True)
class Entry:
    """Everything that a report shows of one answer, with at most ``MOST_ROWS`` rows."""

    answer: StoredAnswer
    rows: Sequence[dict[str, Any]]
    queries: Sequence[SampledQuery]
    difference: Difference | None

    @property
    def published(self) -> bool:
        """Whether there is a result to show."""
        return self.answer.status == AnswerStatus.ANSWERED

    @property
    def is_news(self) -> bool:
        """Whether it belongs in a message of changes and failures only."""
        quiet = self.answer.change in (Change.SAME, None)
        return bool(not self.published or not quiet or self.concerns)

    @property
    def refusal(self) -> str:
        """The sentence that says why nothing is published; empty for a published answer."""
        if self.published:
            return ""
        reason = f": {self.answer.error}" if self.answer.error else ""
        known = _REFUSED.get(self.answer.status)  # no_consensus has its reason alone
        return f"Not answered{', ' if known else ''}{known or ''}{reason}"

    @property
    def share(self) -> str:
        """How many of the candidates agree, in percent; empty where none has a vote."""
        share = self.answer.share
        return f"{share:.0%} agree" if share else ""

    @property
    def concerns(self) -> list[str]:
        """The reasons to distrust a published answer, a sentence each."""
        if not self.published:
            return []
        answer = self.answer
        found = [self.difference.warning] if self.difference and self.difference.warning else []
        if answer.tie:
            found.append("Another result got as many votes.")
        if answer.verified == Verified.ERROR:
            found.append("The verified SQL did not run, so nothing was compared with it.")
        if answer.error:
            found.append(f"The last attempt to ask again failed: {answer.error}")
        return found

    @property
    def agreement(self) -> str:
        """How many queries agree, and how many must; empty where none has a vote."""
        answer = self.answer
        if not answer.share:
            return ""
        asked = counted(answer.candidates, "candidate agrees", "candidates agree")
        tie = ", a tie with another result" if answer.tie else ""
        share = f"{answer.share:.0%}{tie}"
        return f"{answer.votes} of {asked} ({share}); at least {answer.minimum_share:.0%} needed"

    @property
    def change(self) -> str:
        """What changed since the published answer before."""
        words = _CHANGES[self.answer.change] if self.answer.change else ""
        found = self.difference
        if found is not None and found.renamed:
            words = f"{words}, its columns have other names"
        if found is None or not any(found.rows.counts):
            return words
        part = "" if found.complete else ", among the stored rows"
        return f"{words} ({found.rows}{part})"

    @property
    def verified(self) -> str:
        """How the result compares with the verified SQL's; empty without verified SQL."""
        return _VERIFIED[self.answer.verified] if self.answer.verified else ""


def read_entries(store: ReportingStore, answers: Iterable[StoredAnswer]) -> Iterator[Entry]:
    """Read the entries of answers one at a time, in the order of their questions' ids."""
    for answer in sorted(answers, key=lambda one: one.question_id):
        yield read_entry(store, answer)


def read_entry(store: ReportingStore, answer: StoredAnswer) -> Entry:
    """Read the entry of one answer."""
    found = store.difference(answer)
    found = found and replace(found, rows=found.rows.first(MOST_ROWS))
    return Entry(answer, store.rows(answer, MOST_ROWS), store.sampled_queries(answer), found)


def by_trust(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries with the unanswered first, then the doubtful ones."""
    return sorted(entries, key=lambda entry: (entry.published, not entry.concerns))


def summary(shown: Sequence[Entry]) -> str:
    """Count the questions that are answered, changed and doubtful."""
    published = sum(entry.published for entry in shown)
    changed = (Change.DATA_CHANGED, Change.BOTH)
    moved = sum(entry.published and entry.answer.change in changed for entry in shown)
    doubtful = sum(bool(entry.concerns) for entry in shown)
    words = [f"{published} of {counted(len(shown), 'question')} answered"]
    words += [f"{moved} changed"] if moved else []
    words += [f"{doubtful} doubtful"] if doubtful else []
    return ", ".join(words)
