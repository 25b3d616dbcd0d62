"""InferScale from Python: KV records into an engine's paged cache and out of it, through libinferscale.so. Standard
library only. docs/c_abi.md has an example; the C header is the reference."""

from . import abi
from .abi import ArenaRecord, Shape, Stamp, TopkArgs
from .api import Arena, Device, Lease, Transfer, has_cuda, payload_bytes
from .batch import Batch
from .cache import layer, rope
from .loader import Error, load

__all__ = ["Arena", "ArenaRecord", "Batch", "Device", "Error", "Lease", "Shape", "Stamp", "TopkArgs", "Transfer", "abi",
           "has_cuda", "layer", "load", "payload_bytes", "rope"]
