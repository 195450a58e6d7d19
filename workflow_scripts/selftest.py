"""Check the deployment's ranks and find out what its library can do."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.topology import of_node
from overlayccl_core.stages import selftest
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.selftest import SELFTEST
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables selftest and capabilities."""
    deployment, partial = load(command.option("deployment")), Path(command.option("partial"))
    published = of_node(deployment.node)
    tables = selftest.run(
        deployment,
        partial,
        progress=command.say,
        limits=published.limits if published else (),
        largest_payload_bytes=int(command.option("payload")),
        code=command.option("code"),
    )
    command.write({SELFTEST: tables["selftest"], CAPABILITIES: tables["capabilities"]})
    forget(partial, selftest.PARTIAL_RULE, command.outputs)


if __name__ == "__main__":
    run("selftest", main, "deployment", "partial", "payload", "code")
