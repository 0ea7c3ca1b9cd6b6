"""The project's HTML pages: jinja2 with autoescape, one look, light and dark, no network."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

import jinja2

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882 }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { font-size: 1.1rem; margin: 0 }
section { border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0; padding: 1rem }
table { border-collapse: collapse; margin: .7rem 0; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
pre { background: var(--soft); padding: .6rem; overflow-x: auto; white-space: pre-wrap }
.status { border-radius: 4px; padding: 0 .5rem; color: #fff; font-size: .85rem }
.about { color: color-mix(in srgb, CanvasText 72%, Canvas); font-size: .9rem; margin: .3rem 0 }
"""


def render(package: str, template: str, **values: Any) -> str:
    """Render a template of the folder ``templates`` beside a package's modules.

    ``package`` is dotted: ``text2sql.reporting.delivery``. Templates extend ``base.html``; every
    value is escaped unless it is ``markupsafe.Markup``. A name that is not given is an error.
    """
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> jinja2.Environment:
    loaders = [jinja2.PackageLoader(name) for name in dict.fromkeys((package, "text2sql.common"))]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# Nothing is loaded and nothing runs, even if something escaped were not.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: str, style: str = "") -> str:
    """Return a whole page; ``title`` is escaped here, ``body`` is HTML already.

    ``style`` adds to the common one.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style.lstrip()}</style></head>"
        f"<body>{body}</body></html>\n"
    )
