"""`overlayccl schema`: print the JSON schema of a file of the configuration, or the page of all tables.

The JSON schema of config/config.yaml, or of a file in config/deployments or config/searches: every field with its
meaning and bounds, for editors that check what is typed. `tables` prints the columns of all tables that a run
leaves, as Markdown (docs/tables.md).
"""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any

from overlayccl_core.configuration import searches
from overlayccl_core.configuration.deployment import Deployment, Inheriting
from overlayccl_core.configuration.fields import schema
from overlayccl_core.configuration.settings import File
from overlayccl_core.tables.page import page

FILES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "config": lambda: schema(File),
    "deployment": lambda: schema(Deployment, Inheriting),
    "search": searches.schema,
}

TABLES = "tables"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("file", choices=(*FILES, TABLES), help="which file; tables: the page of all tables")


def run(arguments: argparse.Namespace) -> int:
    """Print the schema, or the page of tables; return 0."""
    if arguments.file == TABLES:
        print(page(), end="")
    else:
        print(json.dumps(FILES[arguments.file](), indent=2))
    return 0
