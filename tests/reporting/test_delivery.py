"""Reports that are sent: to a real HTTP server and a real SMTP server, once each."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from tests.reporting.mail_server import MailServer
from tests.support.reporting_databases import postgresql_server, reporting_url, save
from tests.support.scripted_server import ScriptedServer, fails, replay
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.channels import Mail, Webhook
from text2sql.reporting.delivery.delivery import (
    Delivery,
    DeliveryStatus,
    Message,
    build_message,
    deliver,
)
from text2sql.reporting.delivery.entries import read_entries
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import result_table
from text2sql.reporting.tables.schema import deliveries
from text2sql.reporting.tables.store import ReportingStore

__all__ = ["postgresql_server", "reporting_url"]
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAY = "2026-03-02"
BOTH = ("ana@example.org", "bo@example.org")


class Reports:
    """A store with one answered and one failed question, and the message about them."""

    def __init__(self, url: str) -> None:
        self.store = ReportingStore(url)
        self.good = ReportQuestion("good", "How many shops?", "shop")
        self.bad = ReportQuestion("bad", "Which owner?", "shop")
        save(self.store, self.good, self.bad)
        self.write(self.good, 3)
        failed = NewAnswer(self.bad, MONDAY, AnswerStatus.ERROR, error="no server")
        self.store.write_answer(failed)

    def write(self, question: ReportQuestion, value: object, at: datetime = MONDAY) -> None:
        table = result_table(["shops"], [(value,)], 1)
        self.store.write_answer(
            NewAnswer(question, at, AnswerStatus.ANSWERED, "SELECT 1", table, digest=repr(value),
                   share=1.0, votes=8)
        )  # fmt: skip

    def message(self, what="report", at: datetime = MONDAY) -> Message | None:
        found = [self.store.answer(q.id, at) for q in (self.good, self.bad)]
        shown = list(read_entries(self.store, [answer for answer in found if answer]))
        return build_message(f"{at:%Y-%m-%d}", shown, what)

    def deliver(self, *channels, message: Message | None = None) -> list[Delivery]:
        shown = message or self.message()
        return [deliver(self.store, shown, channel) for channel in channels]

    def noted(self) -> list[tuple]:
        columns = (deliveries.c.channel, deliveries.c.status, deliveries.c.attempts)
        query = sa.select(*columns).order_by(deliveries.c.channel)
        return [tuple(row) for row in self.store.read(query)]


@pytest.fixture
def reports(reporting_url):
    reports = Reports(reporting_url)
    yield reports
    reports.store.close()


def mail(post: MailServer, server: str = "") -> Mail:
    return Mail(server or f"smtp+plain://127.0.0.1:{post.port}", "reports@example.org", BOTH)


def test_both_channels_get_the_report_once(reports):
    with ScriptedServer([replay({})]) as chat, MailServer() as post:
        channels = Webhook(chat.url), mail(post)
        states = [one.status for one in reports.deliver(*channels)]
        again = [one.status for one in reports.deliver(*channels)]
    assert states == [DeliveryStatus.SENT] * 2
    assert again == [DeliveryStatus.BEFORE] * 2
    assert (len(chat.requests), len(post.mails)) == (1, 1)
    assert reports.noted() == [("mail", "sent", 1), ("webhook", "sent", 1)]


def test_the_webhook_gets_markdown_and_facts(reports):
    with ScriptedServer([replay({})]) as chat:
        reports.deliver(Webhook(chat.url))
        [body], [headers] = chat.requests, chat.headers
    assert body["text"].startswith(f"**Answers of {DAY}**: 1 of 2 questions answered")
    assert "```\nshops\n3\n```" in body["text"]
    assert "Not answered, something failed: no server" in body["text"]
    assert [one["status"] for one in body["answers"]] == ["error", "answered"]
    assert (body["day"], headers["Idempotency-Key"]) == (DAY, body["content"])


def test_the_mail_has_a_summary_and_the_page(reports):
    with MailServer() as post:
        reports.deliver(mail(post))
        [(sender, recipients, received)] = post.mails
    assert (sender, recipients) == ("reports@example.org", list(BOTH))
    assert received["Subject"] == f"Answers of {DAY}: 1 of 2 questions answered"
    body, page = received.get_body(), next(received.iter_attachments())
    assert "How many shops?" in body.get_content()
    assert page.get_filename() == f"answers-{DAY}.html"
    assert "<!doctype html>" in page.get_content()


def test_a_changed_day_is_sent_again(reports):
    with ScriptedServer(lambda body: replay({})) as chat:
        reports.deliver(Webhook(chat.url))
        reports.write(reports.bad, "Ana")
        assert reports.deliver(Webhook(chat.url))[0].status == DeliveryStatus.SENT
    assert "2 of 2 questions answered" in chat.requests[1]["text"]


def test_a_failure_is_recorded_retried_and_does_not_affect_other_channels(reports):
    with ScriptedServer([fails(404), replay({})]) as chat, MailServer() as post:
        channels = Webhook(chat.url), mail(post)
        failed, sent = reports.deliver(*channels)
        assert (failed.status, sent.status) == (DeliveryStatus.FAILED, DeliveryStatus.SENT)
        assert failed.error == "the webhook at 127.0.0.1 answered with status 404"
        again = [one.status for one in reports.deliver(*channels)]
        assert again == [DeliveryStatus.SENT, DeliveryStatus.BEFORE]
    assert reports.noted() == [("mail", "sent", 1), ("webhook", "sent", 2)]
    assert len(reports.store.list_answers()) == 2


def test_a_busy_webhook_is_asked_again(reports):
    with ScriptedServer([fails(503), fails(429), replay({})]) as chat:
        assert reports.deliver(Webhook(chat.url, pause=0))[0].status == DeliveryStatus.SENT
        assert len(chat.requests) == 3


def test_a_redirect_is_not_followed(reports):
    with ScriptedServer([replay({})]) as other:
        moved = fails(302, location=other.url)
        with ScriptedServer([moved]) as chat:
            [one] = reports.deliver(Webhook(chat.url))
        assert (one.status, other.requests) == (DeliveryStatus.FAILED, [])
    assert "status 302" in one.error


def test_a_webhook_is_reached_through_the_proxy_of_the_environment(reports, monkeypatch):
    with ScriptedServer([replay({})]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://me:secret@"))
        monkeypatch.setenv("no_proxy", "")
        [one] = reports.deliver(Webhook("http://chat.example/hook"))
        assert (one.status, one.error) == (DeliveryStatus.SENT, "")
        [headers] = proxy.headers
    assert headers["Host"] == "chat.example"
    assert headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


def test_errors_do_not_reveal_the_secret_of_a_webhook(reports):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/services/T0/SECRET"
        [one] = reports.deliver(Webhook(address))
    assert "cannot be reached" in one.error
    assert "SECRET" not in one.error
    with reports.store.engine.connect() as connection:
        assert "SECRET" not in repr(connection.execute(sa.select(deliveries)).all())


def test_a_refusing_mail_server_is_reported(reports):
    with MailServer(refuse="554 mailbox full") as post:
        [one] = reports.deliver(mail(post))
    assert one.status == DeliveryStatus.FAILED
    assert "mailbox full" in one.error


def test_one_unknown_recipient_is_reported_and_the_others_get_it_once(reports):
    with MailServer(unknown=BOTH[:1]) as post:
        [one] = reports.deliver(mail(post))
        assert (one.status, one.error) == (DeliveryStatus.SENT, "refused for ana@example.org")
        assert reports.deliver(mail(post))[0].status == DeliveryStatus.BEFORE
        assert len(post.mails) == 1


def test_nothing_is_sent_unencrypted_by_default(reports):
    with MailServer() as post:
        server = f"smtp://user:secret@127.0.0.1:{post.port}"
        [one] = reports.deliver(mail(post, server=server))
        assert one.status == DeliveryStatus.FAILED
        assert "STARTTLS" in one.error
        assert not any(line.startswith(("AUTH", "MAIL")) for line in post.commands)


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not here")
def test_an_encrypted_server_must_be_trusted(reports, tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
         certificate], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with MailServer(tls=context) as post:
        channel = mail(post, server=f"smtps://user:p%40ss@localhost:{post.port}")
        [one] = reports.deliver(channel)
        assert "CERTIFICATE_VERIFY_FAILED" in one.error
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert reports.deliver(channel)[0].status == DeliveryStatus.SENT
        assert any(line.startswith("AUTH PLAIN") for line in post.commands)


def test_only_changes_and_failures(reports):
    message = reports.message("changes")
    assert [one["question_id"] for one in message.facts] == ["bad", "good"]  # a first answer
    tuesday = MONDAY + timedelta(days=1)
    reports.write(reports.good, 3, tuesday)
    assert reports.message("changes", tuesday) is None
    reports.write(reports.good, 4, tuesday)
    [fact] = reports.message("changes", tuesday).facts
    assert (fact["question_id"], fact["change"]) == ("good", "data_changed")


def test_two_runs_at_once_send_once(reports):
    """A second run finds that the first is sending; after a quarter of an hour it takes over."""
    key = {"day": DAY, "channel": "webhook", "content": reports.message().content}
    with ScriptedServer(lambda body: replay({})) as chat:
        reports.deliver(Webhook(chat.url))

        def set_claim(ago: timedelta) -> None:
            values = {"status": "sending", "claimed_at": datetime.now(UTC) - ago}
            mine = [deliveries.c[name] == value for name, value in key.items()]
            with reports.store.writing() as connection:
                connection.execute(sa.update(deliveries).where(*mine).values(values))

        set_claim(timedelta(minutes=1))
        assert reports.deliver(Webhook(chat.url))[0].status == DeliveryStatus.ELSEWHERE
        set_claim(timedelta(hours=1))
        assert reports.deliver(Webhook(chat.url))[0].status == DeliveryStatus.SENT
        assert len(chat.requests) == 2


def test_the_text_for_slack_is_escaped():
    message = Message(DAY, "s", "**a** `<!channel> & <x>`", "", "", "c", [])
    body = Webhook("https://hooks.slack.com/services/T")._body(message.markdown, {})
    assert body["text"] == "*a* `&lt;!channel&gt; &amp; &lt;x&gt;`"
    assert body["unfurl_links"] is False


BAD = ("", "https://[h/y", "https://h:y/z", "https://h/a b", "https://h/a\nb", "https://h/\xe9")


@pytest.mark.parametrize("address", [*BAD, "ftp://x/y", "file:///etc/passwd", "https://", "x"])
def test_an_invalid_web_address_is_refused(address):
    with pytest.raises(Text2SqlError, match="begins with https"):
        Webhook(address)


@pytest.mark.parametrize(
    ("server", "sender", "to", "words"),
    [
        ("http://h", "a@b", ("c@d",), "smtp://USER"),
        ("smtp://h:x", "a@b", ("c@d",), "smtp://USER"),
        ("smtp://[h", "a@b", ("c@d",), "smtp://USER"),
        ("smtp://h", "nobody", ("c@d",), "'nobody' is not a mail address"),
        ("smtp://h", "a@b", ("c@d\nBcc: e@f",), "is not a mail address"),
        ("smtp://h", "a@b", (), "at least one recipient"),
    ],
)
def test_an_invalid_mail_setting_is_refused(server, sender, to, words):
    with pytest.raises(Text2SqlError, match=words):
        Mail(server, sender, to)
