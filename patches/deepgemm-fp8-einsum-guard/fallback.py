"""What DeepGEMM's fp8_einsum computes, in torch, for devices that it has no kernels for."""

import torch

_EQUATION = "bhr,hdr->bhd"  # tokens, groups, inner; groups, columns, inner


def _float_scales(scale: torch.Tensor) -> torch.Tensor:
    """Block scales as float32: float32 as they are, E8M0, raw E8M0 bytes, or E8M0 packed by four into int32."""
    if scale.dtype == torch.int32:  # the lowest byte belongs to the first block
        scale = scale.contiguous().view(torch.uint8)
    if scale.dtype == torch.uint8:
        scale = scale.contiguous().view(torch.float8_e8m0fnu)
    return scale.to(torch.float32)


def _scaled(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """values [groups, rows, inner] times scale [groups, row blocks, inner blocks], as bfloat16.

    FP8 times a power of two is exact in bfloat16; with other scales each element is rounded once, by 2**-8 at most.
    """
    _, row_blocks, inner_blocks = scale.shape
    groups, rows, inner = values.shape
    block = rows // max(row_blocks, 1), inner // inner_blocks  # no rows: no tokens
    blocks = values.reshape(groups, row_blocks, block[0], inner_blocks, block[1])
    product = blocks.to(torch.float32) * scale[:, :, None, :, None]
    return product.to(torch.bfloat16).view(groups, rows, inner)


def fp8_einsum_dequantised(
    equation: str,
    a: tuple[torch.Tensor, torch.Tensor],
    b: tuple[torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    recipe: tuple[int, int, int],
) -> None:
    """out[t, g, n] = sum over k of a[t, g, k] * b[g, n, k].

    a: FP8 [tokens, groups, inner] and one scale for each token, group and recipe[2] inner elements. b: FP8 weights,
    [groups * columns, inner] as the checkpoint has them or [groups, columns, inner], with one scale a block. The block
    sizes of b are read off the shapes: recipe[1] describes scales that DeepGEMM has packed, which these are not.
    """
    (x, x_scale), (weight, weight_scale) = a, b
    _, groups, columns = out.shape
    inner = x.shape[-1]
    if equation != _EQUATION or weight.dtype != torch.float8_e4m3fn or weight.numel() != groups * columns * inner:
        raise RuntimeError(
            f"fp8_einsum without DeepGEMM: weights of {weight.dtype} {tuple(weight.shape)} for {equation} are not the "
            f"checkpoint's FP8 [{groups} * {columns}, {inner}]; was this layer repacked for another kernel?"
        )
    x_scale = _float_scales(x_scale)[..., : inner // recipe[2]]  # packed ones may be padded
    weight_scale = _float_scales(weight_scale)
    left = _scaled(x.transpose(0, 1), x_scale.transpose(0, 1))
    right = _scaled(
        weight.reshape(groups, columns, inner),
        weight_scale.reshape(groups, -1, weight_scale.shape[-1]),
    )
    out.copy_(torch.bmm(left, right.transpose(1, 2)).transpose(0, 1))
