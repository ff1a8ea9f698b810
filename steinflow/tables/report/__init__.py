"""The report of a run: one HTML file that opens anywhere, offline.

Everything that comes from the user's file is escaped. The page carries a Content-Security-Policy that lets only its own
style and script run, by their checksums, and forbids all network access.
"""

import base64
import hashlib
import json
from importlib import resources

from steinflow.tables.report.content import charts_of
from steinflow.tables.report.sections import body_of
from steinflow.tables.runs import Run

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{style_hash}'; \
script-src 'sha256-{script_hash}'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""

_SCRIPTS = ("drawing.js", "posterior.js", "run.js", "predictions.js", "model.js", "page.js")  # one scope, in this order


def report_html(run: Run) -> str:
    """Return the report of a run as the text of an HTML file."""
    style = _part("style.css")
    script = '"use strict";\n(() => {\n' + "".join(map(_part, _SCRIPTS)) + "})();\n"
    charts = charts_of(run)
    title, body = body_of(run, charts)
    return _PAGE.format(
        style=style,
        style_hash=_checksum(style),
        script=script,
        script_hash=_checksum(script),
        title=title,
        body=body,
        data=_data_block(charts),
    )


def _part(name):
    return resources.files("steinflow.tables.report").joinpath(name).read_text("utf-8")


def _checksum(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data_block(values):
    """Return JSON that cannot end its script element, nor begin a comment, whatever its strings hold."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))  # ASCII, so U+2028 is escaped too
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
