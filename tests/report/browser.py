"""The machine's Chromium, as tests drive it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
NEEDED = "OVERLAYCCL_NEEDS_BROWSER"
QUIET = (  # as root in a container, and with no word to anybody
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser; skips the test where none is installed, unless the environment says that it must run."""
    path = next((at for name in NAMES if (at := shutil.which(name))), None)
    if path is None:
        said = "no Chromium on the PATH: `make browser` installs Debian's"
        if os.environ.get(NEEDED):
            pytest.fail(said)
        pytest.skip(said)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()
