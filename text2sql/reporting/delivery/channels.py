"""The channels that reports and notices are sent on: a chat's incoming webhook, and e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import urllib3

from text2sql.common.http import client_for
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.markdown import inert_words

_WEBHOOK_SECONDS = 20
_BUSY = (429, 502, 503, 504)
_ATTEMPTS = 3
_MAIL_SECONDS = 30
_MAIL_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


class DeliveryError(Text2SqlError):
    """A message that was not accepted; the text names the channel without its secrets."""


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
    """Some lines of plain text about an event; ``facts`` say the same to programs.

    ``key`` is the same for the same event, so that a receiver can drop repetitions.
    """

    subject: str
    text: str
    key: str
    facts: Mapping[str, str] = field(default_factory=dict)


class Channel(Protocol):
    """A way to reach people."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def address(self) -> str:
        """Where it sends to; may be secret."""
        ...

    def send(self, message: Message) -> str:
        """Send a report; return what failed in part, empty if nothing; or raise DeliveryError."""
        ...

    def tell(self, notice: Notice) -> str:
        """Send a notice; return and raise like ``send``."""
        ...


def split_address(address: str, schemes: tuple[str, ...]) -> SplitResult | None:
    """Return the parts of an address with one of these schemes; None if it is invalid.

    Refuses blanks, line breaks and other characters that libraries refuse later, in messages that
    repeat the whole secret address.
    """
    try:
        parts = urlsplit(address)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return None
    printable = address.isascii() and address.isprintable() and " " not in address
    valid = port_is_valid and printable and parts.hostname and parts.scheme in schemes
    return parts if valid else None


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
        if split_address(self.address, ("https", "http")) is None:
            raise Text2SqlError("the webhook must be an address that begins with https://")

    def send(self, message: Message) -> str:
        """Send a report; raise DeliveryError if it is not accepted."""
        facts = {"day": message.day, "content": message.content, "answers": message.facts}
        return self._deliver(message.markdown, facts, message.content)

    def tell(self, notice: Notice) -> str:
        """Send a notice; raise DeliveryError if it is not accepted."""
        lines = [f"**{inert_words(notice.subject)}**"]
        lines += map(inert_words, notice.text.splitlines())
        return self._deliver("\n".join(lines), notice.facts, notice.key)

    def _deliver(self, markdown: str, facts: Mapping[str, object], key: str) -> str:
        body = json.dumps(self._body(markdown, facts)).encode()
        for attempt in range(1, _ATTEMPTS + 1):
            status = self._post(body, key)
            if status < 300:
                return ""
            if status not in _BUSY or attempt == _ATTEMPTS:
                break
            time.sleep(self.pause)
        raise DeliveryError(f"the webhook at {self._host} answered with status {status}")

    @property
    def _host(self) -> str:
        return str(urlsplit(self.address).hostname)

    def _post(self, body: bytes, key: str) -> int:
        """Post once; follow no redirect, because reports must not travel to another server."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        try:
            with (
                client_for(self.address) as pool,
                pool.request(
                    "POST", self.address, body=body, headers=headers, timeout=_WEBHOOK_SECONDS,
                    retries=False, preload_content=False,
                ) as answer,
            ):  # fmt: skip
                return int(answer.status)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # The cause has the reason; urllib3's own words may repeat the secret address.
            reason = error.__cause__ or error.__context__ or type(error).__name__
            raise DeliveryError(
                f"the webhook at {self._host} cannot be reached: {reason}"
            ) from None

    def _body(self, markdown: str, facts: Mapping[str, object]) -> dict[str, object]:
        if not self._host.endswith(".slack.com"):
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
        if split_address(self.server, tuple(_MAIL_PORTS)) is None:
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
        """Send a report; return which recipients were refused, if not all were.

        Raises DeliveryError if nobody gets it.
        """
        mail = self._mail(message.subject, f"answers-{message.day}-{message.content}")
        mail.set_content(message.summary)
        mail.add_attachment(
            message.page.encode(), "text", "html", filename=f"answers-{message.day}.html"
        )
        return self._deliver(mail)

    def tell(self, notice: Notice) -> str:
        """Send a notice as plain text; return and raise like ``send``."""
        mail = self._mail(notice.subject, f"notice-{notice.key}")
        mail.set_content(notice.text)
        return self._deliver(mail)

    def _mail(self, subject: str, id: str) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = " ".join(subject.split())
        mail["From"], mail["To"] = self.sender, ", ".join(self.recipients)
        mail["Message-ID"] = f"<{id}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        return mail

    def _deliver(self, mail: EmailMessage) -> str:
        host = str(urlsplit(self.server).hostname)
        try:
            with self._connected() as server:
                refused = server.send_message(mail, self.sender, self.recipients)
        except (smtplib.SMTPException, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise DeliveryError(
                f"the mail server {host} did not accept the message: {words}"
            ) from None
        return f"refused for {', '.join(refused)}" if refused else ""

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        parts = urlsplit(self.server)
        host, port = str(parts.hostname), parts.port or _MAIL_PORTS[parts.scheme]
        context = ssl.create_default_context()
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, port, timeout=_MAIL_SECONDS, context=context
            )
        else:
            server = smtplib.SMTP(host, port, timeout=_MAIL_SECONDS)
        with server:
            if parts.scheme == "smtp":
                server.starttls(context=context)
            if parts.username:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            yield server
