"""Describes an engine's cache and tables from tensors, without importing their library: whatever has data_ptr(),
stride(i), element_size(), shape and dtype, as torch's do. Nothing is copied and nothing is kept: the tensors must
outlive the transfer."""

from . import abi

CACHE_TYPES = {"bfloat16": abi.CACHE_BF16, "float16": abi.CACHE_F16, "float8_e4m3fn": abi.CACHE_FP8_E4M3}
TABLE_TYPES = {"float32": abi.TABLE_F32, "bfloat16": abi.TABLE_BF16}


def _type(tensor, types, what):
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in types:
        raise ValueError(f"{what} of {name}: it must be one of {', '.join(types)}, or say type=")
    return types[name]


def layer(keys, values, dims, *, record_layer, rope=abi.NO_ROPE, group=0, blocks_per_entry=1, key_scale=1.0,
          value_scale=1.0, type=None):
    """A Layer from a view of its keys and one of its values, in one allocation and with equal strides.

    dims names the views' dimensions: b block, h head, n token in block, d element. Examples, with vLLM's tensors:
        packed        (B, H, N, 2D)     layer(kv[..., :D], kv[..., D:], "bhnd", …)
        kv first      (2, B, N, H, D)   layer(kv[0], kv[1], "bnhd", …)
        blocks first  (B, 2, N, H, D)   layer(kv[:, 0], kv[:, 1], "bnhd", …)
    Views of any strides will do. rope: index into the transfer's ropes. type: abi.CACHE_…, for an fp8 cache that is
    stored as bytes.
    """
    if sorted(dims) != ["b", "d", "h", "n"] or len(keys.shape) != 4 or len(values.shape) != 4:
        raise ValueError(f"dims {dims!r}: four dimensions b, h, n and d in the views' order")
    b, h, n, d = (dims.index(name) for name in "bhnd")
    if any(keys.stride(i) != values.stride(i) for i in range(4)) or keys.stride(d) != 1:
        raise ValueError("keys and values must have the same strides, and d must be contiguous")
    if any(keys.shape[i] != values.shape[i] for i in (b, h, n)):
        raise ValueError("keys and values have different blocks, heads or tokens")
    size = keys.element_size()
    return abi.Layer(base=keys.data_ptr(), block_stride=keys.stride(b) * size, head_stride=keys.stride(h) * size,
                     token_stride=keys.stride(n) * size, key_offset=0,
                     value_offset=values.data_ptr() - keys.data_ptr(), key_scale=key_scale, value_scale=value_scale,
                     record_layer=record_layer, rope=rope, group=group, block_size=keys.shape[n],
                     blocks_per_entry=blocks_per_entry, block_count=keys.shape[b],
                     type=_type(keys, CACHE_TYPES, "a cache") if type is None else type)


def rope(table, *, neox=True):
    """A Rope from a tensor (positions, rotary_dims) of cosines, then sines: vLLM's cos_sin_cache and is_neox_style."""
    positions, dims = table.shape
    if table.stride(1) != 1:
        raise ValueError("the rows of a rope table must be contiguous")
    return abi.Rope(rows=table.data_ptr(), row_stride=table.stride(0) * table.element_size(), positions=positions,
                    rotary_dims=dims, type=_type(table, TABLE_TYPES, "a rope table"),
                    pairing=abi.PAIRING_NEOX if neox else abi.PAIRING_INTERLEAVED)
