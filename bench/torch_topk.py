#!/usr/bin/env python3
"""cuda_topk_bench's searches in PyTorch: matmul and topk in f16, on the same vectors, cold as there; then the recall of
cuda_topk_bench's results against double precision.

  torch_topk.py FOLDER       the folder that cuda_topk_bench wrote its results to
"""
import sys

import numpy
import torch

from torch_time import time_us

DIM, K, COLD = 384, 50, 1 << 30
MASK = 0xFFFFFFFF


def elements(first, count):
    """ElementAt of cuda_topk_bench.cc."""
    i = torch.arange(first, first + count, dtype=torch.int64, device="cuda")
    x = ((i & MASK) * 0x9E3779B1 + (i >> 32) * 0x7FEB352D) & MASK
    x ^= x >> 15
    x = (x * 0x846CA68B) & MASK
    x ^= x >> 13
    x = (x * 0x58F38DED) & MASK
    x ^= x >> 16
    return (((x & 0xFFFF) + (x >> 16)).float() - 65536.0) * 2.0 ** -19


def vectors(kind, first, rows):
    out = torch.empty((rows, DIM), dtype=torch.float16 if kind == "f16" else torch.int8, device="cuda")
    for r in range(0, rows, 100_000):
        part = elements(first + r * DIM, min(100_000, rows - r) * DIM).view(-1, DIM)
        out[r:r + 100_000] = part.half() if kind == "f16" else (part * 1016.0).to(torch.int8)
    return out


def exact(base, queries):
    """Scores and rows of the best K in double precision."""
    scores = rows = None
    for first in range(0, base.shape[0], 200_000):
        part = queries.double() @ base[first:first + 200_000].double().T
        s, r = part.topk(min(K, part.shape[1]), dim=1)
        scores = s if scores is None else torch.cat((scores, s), 1)
        rows = r + first if rows is None else torch.cat((rows, r + first), 1)
    scores, best = scores.topk(K, dim=1)
    return scores, rows.gather(1, best)


def main():
    print(torch.__version__, torch.cuda.get_device_name())
    for kind in ("f16", "int8"):
        all_queries = vectors(kind, 1 << 32, 256)
        for rows in (1000, 100_000, 8_000_000):
            base = vectors(kind, 0, rows)
            copies = max(2, -(-COLD // (base.nbytes)))
            bases = [base] + [base.clone() for _ in range(copies - 1)]
            for count in (1, 8, 32, 256):
                queries = all_queries[:count]
                best, found = exact(base, queries)
                ours = torch.from_numpy(numpy.fromfile(f"{sys.argv[1]}/{kind}_{rows}_{count}", dtype=numpy.int32))
                ours = ours.view(count, K).long().cuda()
                same = (ours[:, :, None] == found[:, None, :]).any(2).sum().item() / (count * K)
                score = (queries.double()[:, None, :] * base[ours].double()).sum(2)
                recall = (score >= best[:, -1:] - 1e-5 * best[:, -1:].abs()).float().mean().item()
                line = f"{kind} {rows} rows, {count} queries: recall {recall:.6f}, same rows {same:.6f}"
                if kind == "f16":
                    us = time_us(lambda v: torch.topk(queries @ bases[v].T, K, dim=1), copies)
                    line += f", torch {us:.1f} us"
                print(line, flush=True)
            del bases, base


if __name__ == "__main__":
    main()
