"""How the PyTorch benchmarks take their times."""
import statistics

import torch


def time_us(launch, count):
    """Microseconds of a launch: the median of 7 rounds of launch(0) to launch(count - 1), behind 3 to warm up."""
    times = []
    for r in range(10):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for v in range(count):
            launch(v)
        end.record()
        end.synchronize()
        if r >= 3:
            times.append(start.elapsed_time(end) * 1e3 / count)
    return statistics.median(times)
