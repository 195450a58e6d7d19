"""Classify operations of torch: a matrix product, none, or unknown (an error, never a guess).

A model's own kernel needs no edit here: register a FLOP formula for a product, call `no_product` for any other.
"""

from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

# Products without a FLOP formula in torch (torch.utils.flop_counter).
PRODUCTS = frozenset({
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    *("aten.dot", "aten.vdot", "aten.mv", "aten.addmv", "aten.addbmm"),
    *("aten._addmm_activation", "aten._int_mm", "aten._grouped_mm", "aten._scaled_grouped_mm"),
})  # fmt: skip

# Tags of no product: elementwise, or a copy of a view.
NO_PRODUCT_TAGS = frozenset({torch.Tag.pointwise, torch.Tag.view_copy})

# No products, but untagged in torch.
NO_PRODUCTS = frozenset({
    # moving, making or reading elements
    *("aten.copy_", "aten._unsafe_view", "aten.cat", "aten.stack", "aten.flip", "aten.roll"),
    *("aten.tril", "aten.triu", "aten._local_scalar_dense", "aten.equal", "aten.polar", "aten.complex"),
    *("aten.constant_pad_nd", "aten.empty_like", "aten.zeros_like", "aten.ones_like", "aten.new_zeros"),
    *("aten.new_empty", "aten.new_empty_strided", "aten.new_full", "aten.new_ones", "aten.full_like"),
    *("aten.zero_", "aten.fill_", "aten.repeat", "aten.repeat_interleave", "aten.clone", "aten._to_copy"),
    *("aten.index_fill", "aten.index_fill_", "aten.resize_", "aten.set_", "aten.masked_select"),
    *("aten.rand_like", "aten.randn_like", "aten.bernoulli", "aten.bernoulli_", "aten.uniform_", "aten.normal_"),
    *("aten.copy", "aten.fill", "aten._propagate_xla_data"),  # on compiling devices: they change no value in place
    # over elements: untagged in torch 2.9, Trainium's version
    *("aten.all", "aten.any", "aten.amax", "aten.amin", "aten.aminmax", "aten.argmax", "aten.argmin"),
    *("aten.count_nonzero", "aten.linalg_vector_norm", "aten.logsumexp", "aten.max", "aten.mean", "aten.min"),
    *("aten.nansum", "aten.norm", "aten.prod", "aten.std", "aten.std_mean", "aten.sum", "aten.var"),
    "aten.var_mean",
    # looking up, and its backward
    *("aten.index", "aten.index_put", "aten.index_put_", "aten.index_add", "aten.index_add_", "aten.index_select"),
    *("aten.index_copy", "aten.index_copy_"),
    *("aten.gather", "aten.scatter", "aten.scatter_", "aten.scatter_add", "aten.scatter_add_", "aten.masked_fill_"),
    *("aten.select_backward", "aten.slice_backward", "aten.embedding", "aten.embedding_dense_backward"),
    *("aten._embedding_bag", "aten._embedding_bag_forward_only", "aten._embedding_bag_backward"),
    *("aten.sort", "aten.topk", "aten.cumsum", "aten.cumprod", "aten.bincount", "aten.nonzero"),
    # normalisation, losses, pooling
    *("aten._safe_softmax", "aten._softmax", "aten._softmax_backward_data"),
    *("aten._log_softmax", "aten._log_softmax_backward_data"),
    *("aten.native_layer_norm", "aten.native_layer_norm_backward", "aten._fused_rms_norm"),
    *("aten._fused_rms_norm_backward", "aten.native_batch_norm", "aten.native_batch_norm_backward"),
    *("aten.native_group_norm", "aten.native_group_norm_backward", "aten.native_dropout"),
    *("aten.nll_loss_forward", "aten.nll_loss_backward", "aten.mse_loss", "aten.mse_loss_backward"),
    *("aten.binary_cross_entropy", "aten.binary_cross_entropy_backward", "aten.binary_cross_entropy_with_logits"),
    *("aten.max_pool2d_with_indices", "aten.max_pool2d_with_indices_backward"),
    *("aten.avg_pool2d", "aten.avg_pool2d_backward"),
})  # fmt: skip
LISTS = "aten._foreach_"  # elementwise, over lists of tensors
FSDP_COPIES = "fsdp."  # torch's own, into and out of its communication buffers
_declared: set[str] = set()


class UnknownKernel(ValueError):
    """A step ran operations that `multiplies` cannot classify."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(
            f"whether {', '.join(sorted(names))} multiplies matrices is not known, so products cannot be counted: "
            "where it does, give it a formula with torch.utils.flop_counter.register_flop_formula; where it does "
            "not, say so with overlayccl_core.training.kernels.no_product, in the model's file"
        )


def no_product(*names: str) -> None:
    """Declare kernels (`lab.sort_tokens`) to be no matrix products."""
    _declared.update(names)


def multiplies(operation: Any) -> bool | None:
    """Return whether an operator (torch._ops.OpOverload) multiplies matrices; None if unknown."""
    name = str(operation.overloadpacket)
    if operation.overloadpacket in flop_registry or name in PRODUCTS:
        return True
    tagged = not NO_PRODUCT_TAGS.isdisjoint(operation.tags)
    if (
        tagged
        or operation.is_view
        or name in NO_PRODUCTS
        or name in _declared
        or name.startswith((LISTS, FSDP_COPIES))
        or _makes(operation)
    ):
        return False
    return None


def _makes(operation: Any) -> bool:
    """Whether an operation reads no tensor: its result is made of numbers alone."""
    return not any("Tensor" in str(argument.type) for argument in operation._schema.arguments)
