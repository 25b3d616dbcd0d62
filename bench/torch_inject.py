#!/usr/bin/env python3
"""The work of cuda_inject_bench's first rows in PyTorch, as an engine's plug-in would write it: facts of 30 tokens,
bf16, gathered, rotated (NeoX, f32 tables) and scattered into a paged cache, all layers in one tensor (vLLM has one
tensor per layer, which makes it slower). Rotates through 1 GB of sources and targets.

  torch_inject.py            prints tokens, microseconds eager and compiled, and a copy of the same bytes
"""
import torch

from torch_time import time_us

LAYERS, HEADS, DIM, BLOCK, FACT = 32, 8, 128, 16, 30


def rotate(k, cos, sin):
    a, b = k.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(k.dtype)


def inject(facts, cache, blocks, offsets, cos, sin):
    # facts: list of [heads, layers, 2, FACT, DIM]; cache: [layers, blocks, BLOCK, heads, 2 * DIM]
    kv = torch.cat(facts, dim=3)
    rows = torch.cat((rotate(kv[:, :, 0], cos, sin), kv[:, :, 1]), dim=-1)  # [heads, layers, tokens, 2 * DIM]
    cache[:, blocks, offsets] = rows.permute(1, 2, 0, 3)


def main():
    print(torch.__version__, torch.cuda.get_device_name())
    generator = torch.Generator(device="cuda").manual_seed(1)
    for tokens in (300, 1500, 6000):
        per_token = LAYERS * HEADS * 2 * DIM * 2
        count = max(2, -(-(1 << 30) // (tokens * per_token)))
        pool = torch.randn((count * tokens // FACT, HEADS, LAYERS, 2, FACT, DIM), dtype=torch.bfloat16, device="cuda",
                           generator=generator)
        per_request = -(-tokens // BLOCK)
        cache = torch.empty((LAYERS, count * per_request, BLOCK, HEADS, 2 * DIM), dtype=torch.bfloat16, device="cuda")
        order = torch.randperm(count * per_request, device="cuda", generator=generator)
        positions = torch.arange(tokens, device="cuda")
        angles = positions[:, None] * 500000.0 ** (-torch.arange(DIM // 2, device="cuda") * 2.0 / DIM)
        cos, sin = angles.cos(), angles.sin()
        facts = [list(pool[v * (tokens // FACT):(v + 1) * (tokens // FACT)].unbind(0)) for v in range(count)]
        blocks = [order[v * per_request:(v + 1) * per_request][positions // BLOCK] for v in range(count)]
        offsets = positions % BLOCK
        eager = time_us(lambda v: inject(facts[v], cache, blocks[v], offsets, cos, sin), count)
        compiled = torch.compile(inject, dynamic=False)
        try:
            fast = time_us(lambda v: compiled(facts[v], cache, blocks[v], offsets, cos, sin), count)
        except Exception as error:  # the compiler is not everywhere
            print("compile failed:", type(error).__name__)
            fast = float("nan")
        flat, target = pool.view(-1), cache.view(-1)
        n = tokens * per_token // 2
        copy = time_us(lambda v: target[v * n:(v + 1) * n].copy_(flat[v * n:(v + 1) * n]), count)
        print(f"{tokens} tokens: eager {eager:.1f} us, compiled {fast:.1f} us, copy {copy:.1f} us")


if __name__ == "__main__":
    main()
