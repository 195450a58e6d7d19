"""Snakemake's logger of this pipeline, found by the name of its package: `logger: overlayccl` in a profile."""

from snakemake_logger_plugin_overlayccl.handler import LogHandler

__all__ = ["LogHandler"]
