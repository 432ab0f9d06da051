"""What all pages of the report share: templates, one style for light and dark, nothing from elsewhere."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader
from pygments.formatters import HtmlFormatter

from saobp.study.setup.labels import counted


def render(template: str, **values: Any) -> str:
    """Fill a template; what is not `Markup` is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    """Load templates with the colours of code, for light and for dark screens."""
    environment = Environment(loader=PackageLoader("saobp.study.publication"), autoescape=True, trim_blocks=True)
    environment.globals["counted"] = counted
    for name, style in (("code_light", "default"), ("code_dark", "github-dark")):
        environment.globals[name] = HtmlFormatter(style=style, nobackground=True).get_style_defs(".highlight")
    return environment
