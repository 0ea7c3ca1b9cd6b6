"""Reports by e-mail: a summary as text, and the page attached."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.addresses import address_parts
from text2sql.reporting.delivery.delivery import DeliveryError, Message
from text2sql.reporting.model.notice import Notice

_SECONDS = 30
_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


@dataclass(frozen=True)
class Mail:
    """A mail server, a sender and recipients.

    ``server`` is ``smtp://USER:PASSWORD@HOST:PORT``, which must offer STARTTLS, ``smtps://…``,
    encrypted from the start, or ``smtp+plain://…`` for a relay on this machine.
    """

    server: str
    sender: str
    recipients: tuple[str, ...]
    kind: str = "mail"

    def __post_init__(self) -> None:
        """Raise Text2SqlError for a server or an address that cannot be one."""
        if address_parts(self.server, tuple(_PORTS)) is None:
            raise Text2SqlError(
                "the mail server must be smtp://USER:PASSWORD@HOST:PORT, smtps:// or smtp+plain://"
            )
        for address in (self.sender, *self.recipients):
            if "@" not in address or not address.isprintable() or " " in address:
                raise Text2SqlError(f"{address!r} is no mail address")
        if not self.recipients:
            raise Text2SqlError("mail needs at least one recipient")

    @property
    def address(self) -> str:
        """To whom it goes."""
        return ",".join(sorted(self.recipients))

    def send(self, message: Message) -> str:
        """Send a message; say which recipients were refused, where not all were.

        Raises DeliveryError where nobody gets it.
        """
        return self._deliver(self._report(message))

    def tell(self, notice: Notice) -> str:
        """Send a notice as plain text, as ``send`` sends a report."""
        mail = self._mail(notice.subject, f"notice-{notice.key}")
        mail.set_content(notice.text)
        return self._deliver(mail)

    def _deliver(self, mail: EmailMessage) -> str:
        host = str(urlsplit(self.server).hostname)
        try:
            with self._connected() as server:
                refused = server.send_message(mail, self.sender, self.recipients)
        except (smtplib.SMTPException, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise DeliveryError(
                f"the mail server {host} did not take the message: {words}"
            ) from None
        return f"refused for {', '.join(refused)}" if refused else ""

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        parts = urlsplit(self.server)
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        context = ssl.create_default_context()
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_SECONDS, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=_SECONDS)
        with server:
            if parts.scheme == "smtp":
                server.starttls(context=context)
            if parts.username:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            yield server

    def _mail(self, subject: str, name: str) -> EmailMessage:
        """Begin a mail; ``name`` is what makes its Message-ID its own."""
        mail = EmailMessage()
        mail["Subject"] = " ".join(subject.split())
        mail["From"], mail["To"] = self.sender, ", ".join(self.recipients)
        mail["Message-ID"] = f"<{name}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        return mail

    def _report(self, message: Message) -> EmailMessage:
        mail = self._mail(message.subject, f"answers-{message.day}-{message.content}")
        mail.set_content(message.summary)
        mail.add_attachment(
            message.page.encode(), "text", "html", filename=f"answers-{message.day}.html"
        )
        return mail
