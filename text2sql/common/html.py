"""The project's HTML pages: jinja2 with autoescape, one look, light and dark, no network."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2


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
