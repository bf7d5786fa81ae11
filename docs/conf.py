"""Configures Sphinx, which builds the pages of docs/ as a site and as man pages without a network: make docs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mqregistry import __version__  # noqa: E402 (the path comes first)

project = "mqregistry"
author = "mqregistry"
release = version = __version__
# The source folder is the repository, so that links such as ../bench/SCALE.md work here and on a web site of the
# repository.
root_doc = "docs/index"
include_patterns = ["docs/**.md", "deploy/**.md", "bench/*.md", "tests/README.md", "tests/*/README.md", "*.md"]
exclude_patterns = [".*", "build", "dist", "lua", "pipeline", "registry", "src", "worker"]

extensions = ["myst_parser", "docs.generate.extension"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4  # as on GitHub: ## From here to there is #from-here-to-there
html_theme = "furo"
html_title = "mqregistry"
html_show_copyright = False
html_copy_source = False
html_favicon = "generate/static/favicon.svg"
html_static_path = ["generate/static"]
html_css_files = ["tables.css"]
templates_path = ["generate/templates"]
html_additional_pages = {"index": "redirect.html"}

smartquotes = False

man_show_urls = False  # links lead to other pages of the site
man_pages = [
    ("docs/reference/cli", "mqregistry", "a RocketMQ name server whose route tables live in Redis", "", 1),
    ("docs/reference/settings", "mqregistry-settings", "settings of front ends", "", 5),
    ("docs/redis", "mqregistry-redis", "what mqregistry keeps in Redis", "", 7),
    ("docs/events", "mqregistry-events", "events of the change stream", "", 7),
    ("docs/metrics", "mqregistry-metrics", "metrics of mqregistry", "", 7),
]
