"""Is a folder a valid crate? The public validator's answer, in its environment; what it would fetch it is given.

`.env-rocrate/bin/python tests/archiving/valid.py FOLDER SCRATCH`
"""

import io
import sys
from pathlib import Path

import requests_cache
import rocrate
import urllib3
from requests.adapters import HTTPAdapter
from rocrate_validator.cli import cli

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
PROFILE = "provenance-run-crate"


class _Here(HTTPAdapter):
    """Answers with the context that comes with rocrate."""

    def send(self, request, **_):
        data = (Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()
        assert CONTEXT.encode() in data[:200]
        told = {"Content-Type": "application/ld+json"}
        raw = urllib3.HTTPResponse(body=io.BytesIO(data), headers=told, status=200, preload_content=False)
        return self.build_response(request, raw)


def main() -> None:
    """Exit code 0 where it is valid."""
    folder, scratch = sys.argv[1:]
    cache = str(Path(scratch) / "fetched")
    session = requests_cache.CachedSession(cache_name=cache, expire_after=-1)
    session.mount("https://", _Here())
    session.get(CONTEXT)
    options = ("--offline", "--cache-path", cache, "--no-paging", "-v", "-l", "required")
    cli(["--disable-color", "validate", folder, "-p", PROFILE, *options])


if __name__ == "__main__":
    main()
