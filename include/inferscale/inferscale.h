// InferScale's C interface: KV records in device memory, written into and taken out of an engine's paged KV cache.
// docs/c_abi.md explains it with a drawing. One step of an engine, errors left out:
//
//   at start    inferscale_device_open(INFERSCALE_DEVICE_CUDA, 0, &device);
//               inferscale_host_register(device, shared, shared_bytes, INFERSCALE_HOST_READ_ONLY);
//               inferscale_arena_open(device, arena_bytes, stream, &arena);
//               inferscale_transfer_options o = {.struct_bytes = sizeof o, .ring = 16, .max_records = 4096, …};
//               o.layers = …, o.ropes = …;                   // the cache, described once
//               inferscale_transfer_open(device, &o, &transfer);
//
//   each step   inferscale_arena_acquire(arena, wanted, n, slots, &lease);    // pins; copies what is missing
//               for each record: records[i].payload = slots[i].payload, records[i].stamp = slots[i].stamp, …
//               inferscale_batch b = {.struct_bytes = sizeof b, .records = records, .spans = spans, …};
//               inferscale_inject(transfer, &b, stream, &ticket);             // one launch: every layer and request
//               inferscale_lease_release(lease);                              // the stream remembers the order
//               … the engine's forward pass, on the same stream …
//
//   later       if (inferscale_transfer_poll(transfer, ticket, words, n) == INFERSCALE_OK)
//                 a word that is not 0: that record was replaced while it was read, its tokens must be recomputed
//
// Rules for all of it
// - Errors. Every function that returns inferscale_status can fail; then nothing was changed or launched unless it says
//   otherwise, outputs are as they were, and inferscale_last_error() says what is wrong and what to do. No function
//   ends the process or lets an exception out.
// - Threads. Every function may be called on any thread, at the same time as any other. Calls on one transfer, and on
//   one arena, run one after the other; what each gives to a stream is in that order. The current CUDA device of the
//   calling thread is kept.
// - Handles are never used twice: a closed one, one of another kind or a foreign pointer is INFERSCALE_NOT_FOUND.
//   What was opened on a device may be closed after it.
// - Streams are cudaStream_t; null is the legacy default stream. On INFERSCALE_DEVICE_CPU they must be null, and a
//   launch has ended when the function returns.
// - Addresses are the device's: device memory, or host memory registered with it. On the CPU: host memory. They are
//   not dereferenced to be checked, except for the arrays of a call themselves, which are always in host memory and may
//   be reused when the call returns.
// - Structs that begin with struct_bytes: set it to sizeof. Later versions append fields; what a caller does not know
//   is 0, and a newer caller's fields are refused by an older library unless they are 0. Reserved fields are 0.
//   Numbers named "one of inferscale_…" are that enum's.
// - Numbers are little-endian, sizes and strides are bytes unless another unit is named.
#pragma once

#include <stdint.h>

#if defined(__GNUC__)
#define INFERSCALE_API __attribute__((visibility("default")))
#else
#define INFERSCALE_API
#endif

// Of this header. A larger minor has additions only; another major is another library, libinferscale.so.MAJOR.
#define INFERSCALE_ABI_MAJOR 0
#define INFERSCALE_ABI_MINOR 1

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t inferscale_status;
enum inferscale_status_code {
  INFERSCALE_OK = 0,
  INFERSCALE_PENDING = 1,  // not an error: ask again
  // the caller's
  INFERSCALE_INVALID_ARGUMENT = 100,
  INFERSCALE_TOO_LARGE = 104,
  INFERSCALE_NOT_FOUND = 105,  // no such handle or ticket
  // the machine's
  INFERSCALE_NO_SPACE = 201,  // no host or device memory
  INFERSCALE_BUSY = 203,      // try again after what the message names
  INFERSCALE_UNSUPPORTED = 301,
  INFERSCALE_DEVICE_FAILED = 402,  // the message has the device's words; most such errors stay until the process ends
  INFERSCALE_INTERNAL = 900        // our bug, please report it
};

// ---- Version and errors -------------------------------------------------------------------------------------------

// Of the library: major * 65536 + minor. A caller needs its own major, and at least its own minor.
INFERSCALE_API uint32_t inferscale_abi_version(void);
// "0.1.0", of the product. Static.
INFERSCALE_API const char* inferscale_version(void);
// "invalid_argument"; "unknown" for numbers that are none. Static.
INFERSCALE_API const char* inferscale_status_name(inferscale_status status);
// What the last call of this thread that failed has to say; "" before the first. Valid until the next one fails.
INFERSCALE_API const char* inferscale_last_error(void);

// ---- Devices ------------------------------------------------------------------------------------------------------

enum inferscale_device_kind { INFERSCALE_DEVICE_CPU = 0, INFERSCALE_DEVICE_CUDA = 1 };

typedef struct inferscale_device inferscale_device;

// 1 when the library was built with CUDA, else 0.
INFERSCALE_API int32_t inferscale_has_cuda(void);

// kind: one of inferscale_device_kind. ordinal: CUDA's number of the device; 0 on the CPU. Opens no context of its own:
// memory and streams of the CUDA runtime and of PyTorch in this process can be used.
// INFERSCALE_UNSUPPORTED: built without CUDA, no driver, or the library has no code for this GPU.
INFERSCALE_API inferscale_status inferscale_device_open(uint32_t kind, int32_t ordinal, inferscale_device** device);
INFERSCALE_API inferscale_status inferscale_device_close(inferscale_device* device);

#define INFERSCALE_HOST_READ_ONLY 1u  // the memory is mapped read-only in this process

// Makes host memory readable for the device, at the same address, and fast to copy from; takes about 0.2 s per GiB.
// memory: [bytes], page-aligned, mapped until it is unregistered. flags: 0 or INFERSCALE_HOST_READ_ONLY. Nothing to do
// on the CPU. INFERSCALE_DEVICE_FAILED: registered already, or not possible here.
INFERSCALE_API inferscale_status inferscale_host_register(inferscale_device* device, void* memory, uint64_t bytes,
                                                          uint32_t flags);
// After the last launch and copy that reads it has ended.
INFERSCALE_API inferscale_status inferscale_host_unregister(inferscale_device* device, void* memory);

// ---- Records ------------------------------------------------------------------------------------------------------

// Names the bytes of a record. In memory it stands in front of them, 16-byte aligned. Whoever reuses the memory clears
// generation first, then writes the bytes, then the new stamp; generations are never used twice.
typedef struct inferscale_stamp {
  uint64_t id[2];
  uint64_t version;
  uint64_t generation;  // 0: no record
} inferscale_stamp;

// Numbers as in the file format.
enum inferscale_encoding {
  INFERSCALE_ENCODING_F16 = 1,
  INFERSCALE_ENCODING_BF16 = 2,
  INFERSCALE_ENCODING_INT8 = 3,
  INFERSCALE_ENCODING_INT4 = 4
};

// What all records of one model have in common on this rank.
typedef struct inferscale_shape {
  uint32_t heads;   // KV heads of this rank
  uint32_t layers;  // of a record; the cache may have fewer of them
  uint32_t key_dim;
  uint32_t value_dim;
} inferscale_shape;

// Bytes of a record's payload, laid out as docs/formats/kv_record.md says. encoding: one of inferscale_encoding.
INFERSCALE_API inferscale_status inferscale_payload_bytes(const inferscale_shape* shape, uint32_t tokens,
                                                          uint32_t encoding, uint64_t* bytes);

// ---- The arena: records in device memory --------------------------------------------------------------------------
// A cache with a budget. Records without a lease leave in the order of their last use; their bytes are overwritten.

typedef struct inferscale_arena inferscale_arena;
typedef struct inferscale_lease inferscale_lease;

// A record in host memory. The arena knows it by stamp.id; another version or generation is another content.
typedef struct inferscale_arena_record {
  inferscale_stamp stamp;
  const void* payload;             // [bytes], 16-byte aligned, registered; stays until inferscale_arena_finish
  uint64_t bytes;                  // a multiple of 16
  const inferscale_stamp* origin;  // in front of payload, looked at before and after the copy; null: nobody reuses it
} inferscale_arena_record;

// Where a record is on the device, for inferscale_record.
typedef struct inferscale_slot {
  void* payload;                  // null: there was no room. Use the host memory itself, or text
  const inferscale_stamp* stamp;  // as asked for; cleared when the origin changed during the copy
} inferscale_slot;

typedef struct inferscale_arena_stats_data {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t budget_bytes;
  uint64_t used_bytes;
  uint64_t pinned_bytes;
  uint64_t records;
  uint64_t hits;
  uint64_t misses;
  uint64_t loaded_bytes;
  uint64_t evicted;  // to make room
  uint64_t wiped;    // by evict and clear
  uint64_t refused;  // no room between leases
} inferscale_arena_stats_data;

// One allocation of `bytes`, rounded down to 16 KiB, zeroed. stream: the one that will read it; it outlives the arena.
// INFERSCALE_NO_SPACE: says how much is free.
INFERSCALE_API inferscale_status inferscale_arena_open(inferscale_device* device, uint64_t bytes, void* stream,
                                                       inferscale_arena** arena);
// Leases may still be there: the memory goes with the last one. Waits for the stream then.
INFERSCALE_API inferscale_status inferscale_arena_close(inferscale_arena* arena);

// Pins `count` records and writes where they are to slots [count], in their order. What is missing is copied beside the
// stream, in one batch; what the stream is given from now on waits for it. Nothing here waits for the device. Allocates
// host memory only. An error: nothing is pinned, and what was to be loaded is not in the arena.
INFERSCALE_API inferscale_status inferscale_arena_acquire(inferscale_arena* arena,
                                                          const inferscale_arena_record* records, uint32_t count,
                                                          inferscale_slot* slots, inferscale_lease** lease);
// After the last launch that reads the lease's records was given to the stream; not waiting for it.
INFERSCALE_API inferscale_status inferscale_lease_release(inferscale_lease* lease);

// Copies what is missing and fits, ahead of its use.
INFERSCALE_API inferscale_status inferscale_arena_prefetch(inferscale_arena* arena,
                                                           const inferscale_arena_record* records, uint32_t count);
// Forgets a record in all versions. *gone (may be null): 1 when its bytes are overwritten before anything that the
// arena does from now on; 0 when a lease has it, and they are when the last one ends.
INFERSCALE_API inferscale_status inferscale_arena_evict(inferscale_arena* arena, const uint64_t id[2], uint32_t* gone);
INFERSCALE_API inferscale_status inferscale_arena_clear(inferscale_arena* arena, uint32_t* gone);
// Waits until copies and overwriting are done.
INFERSCALE_API inferscale_status inferscale_arena_finish(inferscale_arena* arena);
// *stats: struct_bytes set by the caller.
INFERSCALE_API inferscale_status inferscale_arena_stats(inferscale_arena* arena, inferscale_arena_stats_data* stats);

// ---- Transfers: records into the cache, and out of it -------------------------------------------------------------

typedef struct inferscale_transfer inferscale_transfer;

enum inferscale_cache_type { INFERSCALE_CACHE_BF16 = 0, INFERSCALE_CACHE_F16 = 1, INFERSCALE_CACHE_FP8_E4M3 = 2 };
enum inferscale_table_type { INFERSCALE_TABLE_F32 = 0, INFERSCALE_TABLE_BF16 = 1 };
enum inferscale_pairing { INFERSCALE_PAIRING_NEOX = 1, INFERSCALE_PAIRING_INTERLEAVED = 2 };

#define INFERSCALE_NO_ROPE UINT32_C(0xFFFFFFFF)

// [positions] rows of rotary_dims / 2 cosines, then as many sines, on the device. vLLM's cos_sin_cache is one.
typedef struct inferscale_rope {
  const void* rows;
  uint64_t row_stride;
  uint32_t positions;
  uint32_t rotary_dims;  // even, <= key_dim; the elements behind are not rotated
  uint32_t type;         // one of inferscale_table_type
  uint32_t pairing;      // one of inferscale_pairing
} inferscale_rope;

// One layer of the cache on this rank. Element (block, head, token in block, d) of its keys is at
//     base + block * block_stride + head * head_stride + token * token_stride + key_offset + d * element size
// and of its values at the same with value_offset. An fp8 element is value / scale.
typedef struct inferscale_layer {
  void* base;
  int64_t block_stride;
  int64_t head_stride;
  int64_t token_stride;
  int64_t key_offset;
  int64_t value_offset;
  float key_scale;  // > 0; 1 for bf16 and f16
  float value_scale;
  uint32_t record_layer;      // of the record
  uint32_t rope;              // index into ropes, or INFERSCALE_NO_ROPE
  uint32_t group;             // whose block table serves the layer: full attention, sliding window, …
  uint32_t block_size;        // tokens of a block, as the strides count them
  uint32_t blocks_per_entry;  // entry e of the table stands for blocks e * n … e * n + n - 1
  uint32_t block_count;       // of the layer: the bound for what tables may name
  uint32_t type;              // one of inferscale_cache_type
  uint32_t reserved;
} inferscale_layer;

// The cache, and the largest batch. Everything is copied.
typedef struct inferscale_transfer_options {
  uint32_t struct_bytes;
  uint32_t ring;  // launches whose tickets are not collected yet: 1 to 256
  // The largest batch. About 84 bytes a record, 40 a span, 5.5 a token, 4 a block, twice (pinned host memory and device
  // memory) for each of the ring.
  uint32_t max_records;   // to 65,536
  uint32_t max_spans;     // to 65,536
  uint32_t max_requests;  // to 4,096
  uint32_t max_tokens;    // of all spans, to 1,048,576
  uint32_t max_blocks;    // to 4,194,304
  int32_t null_block;     // an entry that stands for a block that is not there, as negative ones do; vLLM: 0
  inferscale_shape shape;
  const inferscale_layer* layers;  // [layer_count] those present on this rank
  const inferscale_rope* ropes;    // [rope_count]
  uint32_t layer_count;
  uint32_t rope_count;
  uint32_t group_count;  // block tables of a request, at least 1
  uint32_t reserved;
} inferscale_transfer_options;

// A record that the launch reads (inject) or writes (extract); it stays in place until the launch has ended.
typedef struct inferscale_record {
  void* payload;  // 16-byte aligned
  uint64_t payload_bytes;
  const inferscale_stamp* stamp;   // checked before and after; null: nobody else can reuse the memory. Extract: null
  const inferscale_stamp* origin;  // another stamp, checked the same way: of the host memory behind a copy; or null
  inferscale_stamp expected;       // what both must be
  const void* calibration;         // int8 and int4: [layers][heads][key_dim] {f16 scale, f16 zero}, 16-byte aligned
  uint32_t tokens;                 // of the record
  uint32_t encoding;               // one of inferscale_encoding
} inferscale_record;

// Tokens [record_first, record_first + tokens) of a record at positions [position, position + tokens) of its request.
// A position selects the place in the cache and the row of the rope table.
typedef struct inferscale_span {
  uint32_t record;
  uint32_t record_first;
  uint32_t tokens;
  uint32_t position;
} inferscale_span;

// Spans [span_first, span_first + span_count) of the batch; their positions do not overlap.
typedef struct inferscale_request {
  uint32_t span_first;
  uint32_t span_count;
} inferscale_request;

// Entries [block_first, block_first + block_count) of the batch's blocks. Entry e serves positions [e * n, e * n + n),
// n = block_size * blocks_per_entry. Null blocks are neither read nor written.
typedef struct inferscale_table {
  uint32_t block_first;
  uint32_t block_count;
} inferscale_table;

typedef struct inferscale_batch {
  uint32_t struct_bytes;
  uint32_t record_count;
  uint32_t span_count;
  uint32_t request_count;
  uint32_t block_count;
  uint32_t reserved;
  const inferscale_record* records;    // [record_count]
  const inferscale_span* spans;        // [span_count]
  const inferscale_request* requests;  // [request_count]
  const inferscale_table* tables;      // [request_count][group_count]
  const int32_t* blocks;               // [block_count]
} inferscale_batch;

// INFERSCALE_INVALID_ARGUMENT names the layer or table that is wrong. INFERSCALE_NO_SPACE: a smaller ring or batch.
INFERSCALE_API inferscale_status inferscale_transfer_open(inferscale_device* device,
                                                          const inferscale_transfer_options* options,
                                                          inferscale_transfer** transfer);
// Waits for its launches. Their tickets are gone.
INFERSCALE_API inferscale_status inferscale_transfer_close(inferscale_transfer* transfer);

// Records -> cache: dequantised, keys rotated to their positions, rounded once. Checks the whole batch, then gives one
// copy of the plan, one kernel and one copy of the status words to the stream, which is not being captured. Allocates
// nothing and never waits. INFERSCALE_BUSY: every plan of the ring has a ticket that was not collected, poll or wait.
INFERSCALE_API inferscale_status inferscale_inject(inferscale_transfer* transfer, const inferscale_batch* batch,
                                                   void* stream, uint64_t* ticket);
// Cache -> records: keys rotated back, quantised as each record's encoding says. Tokens of null blocks are left as they
// are in the record. Otherwise as inject.
INFERSCALE_API inferscale_status inferscale_extract(inferscale_transfer* transfer, const inferscale_batch* batch,
                                                    void* stream, uint64_t* ticket);

#define INFERSCALE_STAMP_CHANGED_BEFORE 1u
#define INFERSCALE_STAMP_CHANGED_AFTER 2u

// The status words of a launch, [record_count] in its records' order. Inject: 0, or the bits above, and the load of
// that record has failed. Extract: how many key values were outside of the calibration's range.
// INFERSCALE_OK: the launch has ended, words are written and the ticket is gone. INFERSCALE_PENDING: it has not.
// INFERSCALE_DEVICE_FAILED: it never will, the ticket is gone. words may be null when word_count is 0: they are
// dropped.
INFERSCALE_API inferscale_status inferscale_transfer_poll(inferscale_transfer* transfer, uint64_t ticket,
                                                          uint32_t* words, uint32_t word_count);
// The same, and waits for the end of the launch; other threads' calls on the transfer go on meanwhile.
INFERSCALE_API inferscale_status inferscale_transfer_wait(inferscale_transfer* transfer, uint64_t ticket,
                                                          uint32_t* words, uint32_t word_count);

// ---- Exact top-k --------------------------------------------------------------------------------------------------

enum inferscale_vector_type { INFERSCALE_VECTOR_F16 = 0, INFERSCALE_VECTOR_INT8 = 1 };

#define INFERSCALE_NO_ROW UINT32_C(0xFFFFFFFF)

// For each query the k rows of largest inner product, best first; equal scores: the smaller row first; a NaN is worse
// than any number. Where fewer rows may be found: score -infinity, row and slot INFERSCALE_NO_ROW.
// f16: products exact, sums in f32. int8: float(sum in int32) * (query scale * vector scale), equal on all devices.
typedef struct inferscale_topk_args {
  uint32_t struct_bytes;
  uint32_t type;               // one of inferscale_vector_type, of vectors and queries
  uint32_t rows;               // to 2^30
  uint32_t dim;                // 1 to 8,192
  uint32_t query_count;        // to 1,024
  uint32_t k;                  // to 1,024
  const void* vectors;         // [rows][dim], rows vector_stride apart; 16-byte aligned
  uint64_t vector_stride;      // a multiple of 16
  const float* vector_scales;  // [rows], int8 only; null: 1
  const uint64_t* mask;        // [(rows + 63) / 64] bits, lowest first: rows that may be found; null: all
  const uint32_t* slots;       // [rows] what belongs to a row, such as a record's slot; null: none
  const void* queries;         // [query_count][dim], rows query_stride apart; 16-byte aligned
  uint64_t query_stride;       // a multiple of 16
  const float* query_scales;   // [query_count], int8 only; null: 1
  float* out_scores;           // [query_count][k]
  uint32_t* out_rows;          // [query_count][k]
  uint32_t* out_slots;         // [query_count][k]; null if and only if slots is
} inferscale_topk_args;

// Device memory that a search of these rows, query_count and k needs; 0 on the CPU. Pointers are not looked at.
INFERSCALE_API inferscale_status inferscale_topk_workspace_bytes(inferscale_device* device,
                                                                 const inferscale_topk_args* args, uint64_t* bytes);
// One search on the stream; results are there when it has ended. workspace: [workspace_bytes], 16-byte aligned, of this
// launch until then. Everything is checked but the addresses. On the CPU: one thread, allocates a little.
INFERSCALE_API inferscale_status inferscale_topk(inferscale_device* device, const inferscale_topk_args* args,
                                                 void* workspace, uint64_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif
