"""Writes docs/reference/openapi.json from the API's routes; `--check` fails when it is out of
date."""

import sys
from pathlib import Path

from taskforge.api.schema.document import document_bytes

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "openapi.json"


def main() -> None:
    wanted = document_bytes() + b"\n"
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_bytes() != wanted:
            raise SystemExit("docs/reference/openapi.json is out of date; run `make docs`")
        return
    PAGE.write_bytes(wanted)


if __name__ == "__main__":
    main()
