"""A real SMTP server on 127.0.0.1 that keeps what it is sent."""

from __future__ import annotations

import socketserver
import ssl
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage


class MailServer:
    """Takes mail until closed; ``mails`` has each message with its sender and recipients.

    ``refuse`` is an answer to DATA instead of taking it, ``unknown`` are recipients it does not
    have, ``tls`` encrypts from the start.
    """

    def __init__(self, refuse: str = "", unknown: tuple[str, ...] = (),
                 tls: ssl.SSLContext | None = None) -> None:  # fmt: skip
        self.refuse, self.unknown = refuse, unknown
        self.mails: list[tuple[str, list[str], EmailMessage]] = []
        self.commands: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self, tls))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_address[1]

    def __enter__(self) -> MailServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that distrusts the certificate hangs up."""


def _handler(
    owner: MailServer, tls: ssl.SSLContext | None
) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def setup(self) -> None:
            if tls is not None:
                self.request = tls.wrap_socket(self.request, server_side=True)
            super().setup()

        def handle(self) -> None:
            sender, recipients = "", []
            self.say("220 here")
            while line := self.rfile.readline().decode().strip():
                owner.commands.append(line)
                word, _, rest = line.partition(" ")
                address = rest.partition("<")[2].partition(">")[0]
                match word.upper():
                    case "EHLO":
                        self.say("250-here\r\n250 AUTH PLAIN")
                    case "AUTH":
                        self.say("235 ok")
                    case "MAIL":
                        sender = address
                        self.say("250 ok")
                    case "RCPT" if address in owner.unknown:
                        self.say("550 no such user")
                    case "RCPT":
                        recipients.append(address)
                        self.say("250 ok")
                    case "DATA" if owner.refuse:
                        self.say(owner.refuse)
                    case "DATA":
                        self.say("354 go on")
                        mail = message_from_bytes(self.data(), policy=policy.default)
                        owner.mails.append((sender, recipients, mail))
                        self.say("250 taken")
                    case "RSET":
                        self.say("250 ok")
                    case "QUIT":
                        self.say("221 bye")
                        return
                    case _:
                        self.say("502 unknown")

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def data(self) -> bytes:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line[1:] if line.startswith(b"..") else line)
            return b"".join(lines)

    return Handler
