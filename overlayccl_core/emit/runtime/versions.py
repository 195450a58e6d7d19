"""The proven library and versions of a deployed module, against those here."""

from __future__ import annotations

import warnings

from overlayccl_core.emit.runtime.given import PROBLEM, PROVEN

_warned = False


def check_versions(versions: dict[str, str], strict: bool) -> None:
    """Warn once, or raise if `strict`, if versions here are not the proven ones."""
    global _warned
    differ = differences(versions)
    if not differ:
        return
    text = (
        f"{PROBLEM} was proven and measured with {', '.join(f'{k} {PROVEN[k]}' for k in differ)}, here is"
        f" {', '.join(f'{k} {versions.get(k)}' for k in differ)}: values are checked by selftest(), speed is"
        " not; have the same here, deploy again for what is here, or set OVERLAYCCL_PLAIN=1"
    )
    if strict:
        raise RuntimeError(text + ", or connect with strict=False")
    if not _warned:
        _warned = True
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def differences(versions: dict[str, str]) -> list[str]:
    """Return the names with another version than the proven one."""
    return [name for name, version in PROVEN.items() if versions.get(name) != version]
