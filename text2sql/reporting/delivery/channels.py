"""The channels that reports and notices are sent on: a chat's incoming webhook, and e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

import urllib3

from text2sql.common.http import client_for
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.markdown import inert_words

_BUSY = (429, 502, 503, 504)
_ATTEMPTS = 3
_MAIL_SECONDS = 30
_MAIL_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


@dataclass(frozen=True)
class Message:
    """What is sent about a day.

    ``markdown`` has the first rows of each answer, ``summary`` none, ``page`` is the HTML page.
    ``content`` is a digest: equal messages are sent once. ``facts`` say the same to programs.
    """

    day: str
    subject: str
    markdown: str
    summary: str
    page: str
    content: str
    facts: list[dict[str, object]]


@dataclass(frozen=True)
class Notice:
    """Plain text about an event; a receiver can drop repetitions, which have the same ``key``."""

    subject: str
    text: str
    key: str
    facts: Mapping[str, str] = field(default_factory=dict)


def _is_address(address: str, schemes: Iterable[str]) -> bool:
    # Libraries refuse blanks and line breaks later, in messages that repeat the secret address.
    printable = address.isascii() and address.isprintable() and " " not in address
    try:
        parts = urlsplit(address)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return bool(port_is_valid and printable and parts.hostname and parts.scheme in schemes)


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON with the field ``text``, as Slack and Mattermost do.

    ``day``, ``content`` and ``answers`` are added for programs. ``pause`` is the seconds to wait
    before a busy server is asked again, at most three times in all.
    """

    address: str
    pause: float = 2.0
    kind: str = "webhook"

    def __post_init__(self) -> None:
        """Raise Text2SqlError for an invalid web address."""
        if not _is_address(self.address, ("https", "http")):
            raise Text2SqlError("the webhook must be an address that begins with https://")

    def send(self, message: Message) -> str:
        """Send a report; raise Text2SqlError, without the address, if it is not accepted."""
        facts = {"day": message.day, "content": message.content, "answers": message.facts}
        return self._deliver(message.markdown, facts, message.content)

    def tell(self, notice: Notice) -> str:
        """Send a notice; raise like ``send``."""
        lines = [f"**{inert_words(notice.subject)}**"]
        lines += map(inert_words, notice.text.splitlines())
        return self._deliver("\n".join(lines), notice.facts, notice.key)

    def _deliver(self, markdown: str, facts: Mapping[str, object], key: str) -> str:
        webhook = f"the webhook at {urlsplit(self.address).hostname}"
        body = json.dumps(self._body(markdown, facts)).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with (
                    client_for(self.address) as pool,
                    # retries=False follows no redirect: reports must not go to another server.
                    pool.request(
                        "POST", self.address, body=body, headers=headers, timeout=20,
                        retries=False, preload_content=False,
                    ) as answer,
                ):  # fmt: skip
                    status = answer.status
            except (urllib3.exceptions.HTTPError, OSError) as error:
                # The cause has the reason; urllib3's own words may repeat the secret address.
                reason = error.__cause__ or error.__context__ or type(error).__name__
                raise Text2SqlError(f"{webhook} cannot be reached: {reason}") from None
            if status < 300:
                return ""
            if status not in _BUSY or attempt == _ATTEMPTS:
                break
            time.sleep(self.pause)
        raise Text2SqlError(f"{webhook} answered with status {status}")

    def _body(self, markdown: str, facts: Mapping[str, object]) -> dict[str, object]:
        if not str(urlsplit(self.address).hostname).endswith(".slack.com"):
            return {"text": markdown, **facts}
        # Slack reads <...> as links and mentions, even in code, and bold has one star.
        text = markdown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": text.replace("**", "*"), "unfurl_links": False, "unfurl_media": False}


@dataclass(frozen=True)
class Mail:
    """A mail server, a sender and recipients: a summary as text, with the page attached.

    ``server`` is ``smtp://USER:PASSWORD@HOST:PORT``, which must offer STARTTLS, ``smtps://…``,
    encrypted from the start, or ``smtp+plain://…`` for a relay on this machine.
    """

    server: str
    sender: str
    recipients: tuple[str, ...]
    kind: str = "mail"

    def __post_init__(self) -> None:
        """Raise Text2SqlError for an invalid server or address."""
        if not _is_address(self.server, _MAIL_PORTS):
            raise Text2SqlError(
                "the mail server must be smtp://USER:PASSWORD@HOST:PORT, smtps:// or smtp+plain://"
            )
        for address in (self.sender, *self.recipients):
            if "@" not in address or not address.isprintable() or " " in address:
                raise Text2SqlError(f"{address!r} is not a mail address")
        if not self.recipients:
            raise Text2SqlError("mail needs at least one recipient")

    @property
    def address(self) -> str:
        """The recipients."""
        return ",".join(sorted(self.recipients))

    def send(self, message: Message) -> str:
        """Send a report; return which recipients were refused, empty if none was.

        Raises Text2SqlError if it reaches no recipient.
        """
        name = f"answers-{message.day}"
        mail = self._mail(message.subject, f"{name}-{message.content}", message.summary)
        mail.add_attachment(message.page.encode(), "text", "html", filename=f"{name}.html")
        return self._deliver(mail)

    def tell(self, notice: Notice) -> str:
        """Send a notice as plain text; return and raise like ``send``."""
        return self._deliver(self._mail(notice.subject, f"notice-{notice.key}", notice.text))

    def _mail(self, subject: str, id: str, text: str) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = " ".join(subject.split())
        mail["From"], mail["To"] = self.sender, ", ".join(self.recipients)
        mail["Message-ID"] = f"<{id}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text)
        return mail

    def _deliver(self, mail: EmailMessage) -> str:
        parts = urlsplit(self.server)
        host, port = str(parts.hostname), parts.port or _MAIL_PORTS[parts.scheme]
        context = ssl.create_default_context()
        try:
            server = (
                smtplib.SMTP_SSL(host, port, timeout=_MAIL_SECONDS, context=context)
                if parts.scheme == "smtps"
                else smtplib.SMTP(host, port, timeout=_MAIL_SECONDS)
            )
            with server:
                if parts.scheme == "smtp":
                    server.starttls(context=context)
                if parts.username:
                    server.login(unquote(parts.username), unquote(parts.password or ""))
                refused = server.send_message(mail, self.sender, self.recipients)
        except (smtplib.SMTPException, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise Text2SqlError(
                f"the mail server {host} did not accept the message: {words}"
            ) from None
        return f"refused for {', '.join(refused)}" if refused else ""


Channel = Webhook | Mail
