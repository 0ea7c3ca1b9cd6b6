"""Pages: rendered from templates, escaped, and without anything to load."""

import re

import jinja2
import pytest

from text2sql.common import html


@pytest.fixture
def templates(monkeypatch):
    """The package's own templates, and one that shows a name."""
    loader = jinja2.DictLoader(
        {"page.html": "{% extends 'base.html' %}{% block body %}<p>{{ name }}</p>{% endblock %}"}
    )
    environment = html._environment.__wrapped__("text2sql.common")
    environment.loader = jinja2.ChoiceLoader([loader, environment.loader])
    monkeypatch.setattr(html, "_environment", lambda package: environment)


def test_values_are_escaped(templates):
    page = html.render("text2sql.common", "page.html", name="<script>alert(1)</script>")
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>" in page


def test_a_missing_name_is_an_error(templates):
    with pytest.raises(jinja2.UndefinedError, match="name"):
        html.render("text2sql.common", "page.html")


def test_a_page_loads_nothing_and_runs_nothing(templates):
    page = html.render("text2sql.common", "page.html", name="x")
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|src=|@import|url\(", page)
    assert "color-scheme: light dark" in page
