"""Where a day's answers are sent: a webhook, a mail server, or by default nowhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from text2sql.reporting.delivery.channels import Channel

WEBHOOK_VARIABLE = "TEXT2SQL_WEBHOOK"
SMTP_VARIABLE = "TEXT2SQL_SMTP"
FROM_VARIABLE = "TEXT2SQL_MAIL_FROM"
TO_VARIABLE = "TEXT2SQL_MAIL_TO"


class DeliveryResource(dg.ConfigurableResource):
    """A webhook and a mail server. Addresses may hold secrets: set them in the environment."""

    webhook: str = Field(
        default="", description=f"An incoming webhook's address; empty: {WEBHOOK_VARIABLE}."
    )
    smtp: str = Field(
        default="",
        description="smtp://USER:PASSWORD@HOST:PORT (STARTTLS), smtps:// or smtp+plain://; "
        f"empty: {SMTP_VARIABLE}.",
    )
    sender: str = Field(default="", description=f"The sender of mail; empty: {FROM_VARIABLE}.")
    recipients: list[str] = Field(
        default_factory=list,
        description=f"Recipients of mail; empty: {TO_VARIABLE}, separated by commas.",
    )
    send: Literal["report", "changes"] = Field(
        default="report",
        description="'report': every answer of the day; 'changes': only what is new, changed, "
        "doubtful or not answered, and no message without any.",
    )

    def channels(self) -> list[Channel]:
        """Return the configured channels; raise Text2SqlError for an invalid setting."""
        from text2sql.reporting.delivery.channels import Mail, Webhook

        found: list[Channel] = []
        if webhook := (self.webhook or os.environ.get(WEBHOOK_VARIABLE, "")).strip():
            found.append(Webhook(webhook))
        if smtp := (self.smtp or os.environ.get(SMTP_VARIABLE, "")).strip():
            sender = self.sender or os.environ.get(FROM_VARIABLE, "").strip()
            named = self.recipients or map(str.strip, os.environ.get(TO_VARIABLE, "").split(","))
            found.append(Mail(smtp, sender, tuple(filter(None, named))))
        return found
