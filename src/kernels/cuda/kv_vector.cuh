// Groups of eight elements of a row: loaded, stored and converted. A thread of the vector kernels has two of them: 16
// bytes each of bf16 or f16, 8 of int8 and fp8, 4 of int4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/kv_payload.h"
#include "kernels/paged_cache.h"

namespace inferscale::kernels {

// Template arguments of the kernels: one format for the whole launch, or read from the plan for each record or layer.
inline constexpr int kAny = -1;

struct Eight {
  float v[8];
};

// Eight elements as they lie in memory: x only for int4, x and y for int8 and fp8.
using Bits = uint4;

template <class T>
__device__ inline T As(uint32_t bits) {
  return *reinterpret_cast<T*>(&bits);
}
template <class T>
__device__ inline uint32_t BitsOf(T value) {
  return *reinterpret_cast<uint32_t*>(&value);
}

// `bytes` is 16, 8 or 4, and known when compiled where it matters. Streaming: a record's bytes are read once a launch.
__device__ inline Bits LoadBits(const uint8_t* at, uint32_t bytes) {
  Bits bits = make_uint4(0, 0, 0, 0);
  if (bytes == 16) {
    bits = __ldcs(reinterpret_cast<const uint4*>(at));
  } else if (bytes == 8) {
    const uint2 two = __ldcs(reinterpret_cast<const uint2*>(at));
    bits.x = two.x, bits.y = two.y;
  } else {
    bits.x = __ldcs(reinterpret_cast<const uint32_t*>(at));
  }
  return bits;
}

// kOnce: L2 gives up these lines before others.
template <bool kOnce = false>
__device__ inline void StoreBits(uint8_t* at, uint32_t bytes, Bits bits) {
  if (kOnce && bytes == 16) {
    __stcs(reinterpret_cast<uint4*>(at), bits);
  } else if (bytes == 16) {
    *reinterpret_cast<uint4*>(at) = bits;
  } else if (bytes == 8) {
    *reinterpret_cast<uint2*>(at) = make_uint2(bits.x, bits.y);
  } else {
    *reinterpret_cast<uint32_t*>(at) = bits.x;
  }
}

__device__ inline Eight FromBf16(Bits bits) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(As<__nv_bfloat162>(words[i]));
    out.v[2 * i] = two.x, out.v[2 * i + 1] = two.y;
  }
  return out;
}

__device__ inline Eight FromF16(Bits bits) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __half22float2(As<__half2>(words[i]));
    out.v[2 * i] = two.x, out.v[2 * i + 1] = two.y;
  }
  return out;
}

__device__ inline Eight FromFp8(Bits bits) {
  const uint32_t words[2] = {bits.x, bits.y};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> (i % 2 * 16));
    const float2 two = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
    out.v[2 * i] = two.x, out.v[2 * i + 1] = two.y;
  }
  return out;
}

__device__ inline Bits ToBf16(const Eight& in) {
  return make_uint4(BitsOf(__floats2bfloat162_rn(in.v[0], in.v[1])), BitsOf(__floats2bfloat162_rn(in.v[2], in.v[3])),
                    BitsOf(__floats2bfloat162_rn(in.v[4], in.v[5])), BitsOf(__floats2bfloat162_rn(in.v[6], in.v[7])));
}

__device__ inline Bits ToF16(const Eight& in) {
  return make_uint4(BitsOf(__floats2half2_rn(in.v[0], in.v[1])), BitsOf(__floats2half2_rn(in.v[2], in.v[3])),
                    BitsOf(__floats2half2_rn(in.v[4], in.v[5])), BitsOf(__floats2half2_rn(in.v[6], in.v[7])));
}

__device__ inline Bits ToFp8(const Eight& in) {
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = __nv_cvt_float2_to_fp8x2(make_float2(in.v[2 * i], in.v[2 * i + 1]), __NV_SATFINITE, __NV_E4M3);
  }
  return make_uint4(pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16, 0, 0);
}

// Eight quanta as bytes. int4's lie in halves of bytes: even ones low, odd ones high.
__device__ inline uint2 QuantumBytes(Bits bits, bool wide) {
  if (wide) return make_uint2(bits.x, bits.y);
  const uint32_t even = bits.x & 0x0F0F0F0F, odd = bits.x >> 4 & 0x0F0F0F0F;
  return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// A byte becomes the lowest mantissa bits of 2^23, which leaves its number when 2^23 is taken away: two cheap
// instructions where a conversion is a slow one.
__device__ inline Eight BytesLess(uint2 bytes, float less) {
  Eight out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = i < 4 ? bytes.x : bytes.y;
    out.v[i] = __uint_as_float(__byte_perm(word, 0x4B000000, 0x7440 + i % 4)) - (8388608.0f + less);
  }
  return out;
}

// Eight quanta, unsigned: 0 … 255, or 0 … 15.
__device__ inline Eight FromQuanta(Bits bits, bool wide) { return BytesLess(QuantumBytes(bits, wide), 0); }

// The same for values, which are signed: a sign bit turned over adds 128.
__device__ inline Eight FromSignedQuanta(Bits bits, bool wide) {
  uint2 bytes = QuantumBytes(bits, wide);
  if (wide) bytes.x ^= 0x80808080, bytes.y ^= 0x80808080;
  return BytesLess(bytes, wide ? 128.0f : 8.0f);
}

// in: whole numbers of the right range. Signed ones: int4 already has its 8 added.
__device__ inline Bits ToQuanta(const Eight& in, bool wide) {
  Bits bits = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto q = static_cast<uint32_t>(static_cast<int>(in.v[i]));
    if (!wide) {
      bits.x |= (q & 15u) << (i * 4);
    } else if (i < 4) {
      bits.x |= (q & 255u) << (i * 8);
    } else {
      bits.y |= (q & 255u) << (i % 4 * 8);
    }
  }
  return bits;
}

__device__ inline Eight FromCache(Bits bits, CacheType type) {
  return type == CacheType::kBf16 ? FromBf16(bits) : type == CacheType::kF16 ? FromF16(bits) : FromFp8(bits);
}
__device__ inline Bits ToCache(const Eight& in, CacheType type) {
  return type == CacheType::kBf16 ? ToBf16(in) : type == CacheType::kF16 ? ToF16(in) : ToFp8(in);
}

// Whether a row's bits are the same in both, so that what is not rotated is copied.
__device__ inline bool SameBits(PayloadEncoding encoding, CacheType type) {
  return (encoding == PayloadEncoding::kBf16 && type == CacheType::kBf16) ||
         (encoding == PayloadEncoding::kF16 && type == CacheType::kF16);
}

}  // namespace inferscale::kernels
