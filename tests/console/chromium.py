"""A real Chromium, where there is one, and what every browser test wants to know of a page."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = os.environ.get("MQREGISTRY_CHROMIUM") or shutil.which("chromium") or ""
needs_chromium = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no chromium on PATH: apt-get install chromium"),
]

HOSTILE = '<script>document.title="taken"</script>'


def faults_of(page, url):
    """Whatever breaks the policy of a page from now on, or is asked for elsewhere."""
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    page.on("request", lambda one: None if one.url.startswith(url) else faults.append(one.url))
    return faults
