"""Reports to a chat, or to a program, through an incoming webhook."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from text2sql.common.http import NoRedirects
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.addresses import address_parts
from text2sql.reporting.delivery.delivery import DeliveryError, Message
from text2sql.reporting.delivery.markdown import words
from text2sql.reporting.model.notice import Notice

_SECONDS = 20
_BUSY = (429, 502, 503, 504)
_ATTEMPTS = 3


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON with the field ``text``, as Slack and Mattermost do.

    Beside it stand ``day``, ``content`` and ``answers`` for programs. ``pause`` is the seconds
    before a busy server is asked again, at most three times in all.
    """

    address: str
    pause: float = 2.0
    kind: str = "webhook"

    def __post_init__(self) -> None:
        """Raise Text2SqlError for what is no web address."""
        if address_parts(self.address, ("https", "http")) is None:
            raise Text2SqlError("the webhook must be an address that begins with https://")

    def send(self, message: Message) -> str:
        """Send a message; raise DeliveryError where it is not taken."""
        facts = {"day": message.day, "content": message.content, "answers": message.facts}
        return self._deliver(message.markdown, facts, message.content)

    def tell(self, notice: Notice) -> str:
        """Send a notice; raise DeliveryError where it is not taken."""
        lines = [f"**{words(notice.subject)}**", *map(words, notice.text.splitlines())]
        return self._deliver("\n".join(lines), notice.facts, notice.key)

    def _deliver(self, markdown: str, facts: Mapping[str, object], key: str) -> str:
        request = urllib.request.Request(
            self.address,
            json.dumps(self._body(markdown, facts)).encode(),
            {"Content-Type": "application/json", "Idempotency-Key": key},
        )
        for attempt in range(1, _ATTEMPTS + 1):
            status = self._post(request)
            if status < 300:
                return ""
            if status not in _BUSY or attempt == _ATTEMPTS:
                break
            time.sleep(self.pause)
        raise DeliveryError(f"the webhook at {self._host} answered with status {status}")

    @property
    def _host(self) -> str:
        return str(urlsplit(self.address).hostname)

    def _post(self, request: urllib.request.Request) -> int:
        opener = urllib.request.build_opener(NoRedirects)
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise DeliveryError(
                f"the webhook at {self._host} cannot be reached: {reason}"
            ) from None

    def _body(self, markdown: str, facts: Mapping[str, object]) -> dict[str, object]:
        if not self._host.endswith(".slack.com"):
            return {"text": markdown, **facts}
        # Slack takes <...> for links and mentions, in code too, and bold has one star.
        text = markdown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": text.replace("**", "*"), "unfurl_links": False, "unfurl_media": False}
