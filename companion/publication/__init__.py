"""The command line, the workflow, the executed notebooks and the report."""

import sys

# optional for nbformat, which no notebook needs it for; it compiles a grammar of URIs for two
# seconds in every process
sys.modules.setdefault("rfc3987_syntax", None)
