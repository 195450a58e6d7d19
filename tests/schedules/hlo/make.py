"""Compile functions of ours with JAX, and write their optimized HLO beside this file: for CPUs, some for TPUs.

    python -m venv jax && jax/bin/pip install jax libtpu && jax/bin/python tests/schedules/hlo/make.py

No test runs it: the texts are its outputs. No TPU is needed, its compiler runs without one. Attributes that name
sources or tune the backend are left out.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEVICES = 8
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ |= {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
os.environ["TPU_WORKER_ID"] = "0"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

HERE = Path(__file__).parent
LINE = jax.make_mesh((DEVICES,), ("r",))
NODES = jax.make_mesh((2, 4), ("node", "local"))
TPU = Mesh(np.array(topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices), ("r",))


def all_reduce(x: Any) -> Any:
    """The library's own sum."""
    return lax.psum(x, "r")


def mean(x: Any) -> Any:
    """A mean over the ranks."""
    return lax.pmean(x, "r")


def two_steps(x: Any) -> Any:
    """A sum as a reduce_scatter and an all_gather."""
    return lax.all_gather(lax.psum_scatter(x, "r", tiled=True), "r", tiled=True)


def hierarchical(x: Any) -> Any:
    """A sum within nodes, between them, and back."""
    part = lax.psum_scatter(x, "local", tiled=True)
    return lax.all_gather(lax.psum(part, "node"), "local", tiled=True)


def exchange(x: Any) -> Any:
    """An all_to_all."""
    return lax.all_to_all(x, "r", 0, 0, tiled=True)


def merged(x: Any, y: Any, z: Any) -> Any:
    """Three sums, which the compiler may join."""
    return lax.psum(x, "r"), lax.psum(y, "r"), lax.psum(z, "r")


def packed(x: Any, y: Any) -> Any:
    """One sum of two tensors in one buffer: packing, and unpacking, become fusions."""
    total = lax.psum(jnp.concatenate([x.reshape(4, 6).T.reshape(-1), y]), "r")
    return total[:24].reshape(6, 4).T.reshape(-1), total[24:]


def ring(x: Any) -> Any:
    """A ring that gathers: seven permutes, each placed by the rank."""
    rank, n = lax.axis_index("r"), x.shape[0]
    held = lax.dynamic_update_slice(jnp.zeros((DEVICES * n,), x.dtype), x, (rank * n,))
    for step in range(1, DEVICES):
        x = lax.ppermute(x, "r", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        held = lax.dynamic_update_slice(held, x, ((rank - step) % DEVICES * n,))
    return held


def ring_in_a_loop(x: Any) -> Any:
    """The same, as a loop."""
    rank, n = lax.axis_index("r"), x.shape[0]

    def turn(step: Any, state: Any) -> Any:
        x, held = state
        x = lax.ppermute(x, "r", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        return x, lax.dynamic_update_slice(held, x, ((rank - step) % DEVICES * n,))

    held = lax.dynamic_update_slice(jnp.zeros((DEVICES * n,), x.dtype), x, (rank * n,))
    return lax.fori_loop(1, DEVICES, turn, (x, held))[1]


def ring_sum(x: Any) -> Any:
    """A ring that adds on its way: each rank ends with its share of the sum."""
    rank, n = lax.axis_index("r"), x.shape[0] // DEVICES
    total = lax.dynamic_slice(x, ((rank - 1) % DEVICES * n,), (n,))
    for step in range(2, DEVICES + 1):
        total = lax.ppermute(total, "r", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        total = total + lax.dynamic_slice(x, ((rank - step) % DEVICES * n,), (n,))
    return total


def matmul(x: Any) -> Any:
    """A sum of partial products: it computes."""
    return lax.psum((x.reshape(2, 8) @ x.reshape(8, 2)).reshape(-1), "r")


SHARDED, SAME = P("r"), P()
FUNCTIONS: tuple[tuple[Callable[..., Any], Any, Any, tuple[int, ...]], ...] = (
    # function, mesh, what the result is, elements that a rank gives
    (all_reduce, LINE, SAME, (16,)),
    (mean, LINE, SAME, (16,)),
    (two_steps, LINE, SAME, (16,)),
    (hierarchical, NODES, SAME, (16,)),
    (exchange, LINE, SHARDED, (16,)),
    (merged, LINE, (SAME, SAME, SAME), (16, 5, 8)),
    (packed, LINE, (SAME, SAME), (24, 5)),
    (ring, LINE, SAME, (3,)),
    (ring_in_a_loop, LINE, SAME, (3,)),
    (ring_sum, LINE, SHARDED, (16,)),
    (matmul, LINE, SAME, (16,)),
)


def compiled(function: Callable[..., Any], mesh: Any, out: Any, sizes: tuple[int, ...]) -> str:
    """The optimized text of a function, without names of sources."""
    given = P(mesh.axis_names)
    sharded = jax.shard_map(
        function, mesh=mesh, in_specs=(given,) * len(sizes), out_specs=out, check_vma=False
    )
    placed = NamedSharding(mesh, given)
    arguments = [jax.ShapeDtypeStruct((DEVICES * n,), jnp.float32, sharding=placed) for n in sizes]
    text = jax.jit(sharded).lower(*arguments).compile().as_text()
    text = re.sub(r", backend_config=\{.*\}$", "", text, flags=re.MULTILINE)
    text = re.sub(r", metadata=\{[^{}]*\}", "", text)
    text = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d+ .*\n)*", "", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> None:
    """Write all of them."""
    for function, mesh, out, sizes in FUNCTIONS:
        (HERE / f"{function.__name__}.hlo").write_text(compiled(function, mesh, out, sizes))
    for function, _, out, sizes in FUNCTIONS:
        if function in (two_steps, exchange, packed, ring):
            (HERE / f"tpu_{function.__name__}.hlo").write_text(compiled(function, TPU, out, sizes))


if __name__ == "__main__":
    main()
