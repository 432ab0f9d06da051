"""The command line, the workflow, the executed notebooks and the report."""

import sys

# nbformat asks jsonschema for every format of JSON, and this one compiles a grammar of URIs, for two seconds in every
# process. It is optional, and no notebook has such a URI.
sys.modules.setdefault("rfc3987_syntax", None)
