// Every limit of the product, in one place. A value beyond a limit is a clear error, never a crash or a silent cut.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale::limits {

// Facts and turns.
inline constexpr size_t kFactBytes = 256 * 1024;  // a fact's or a turn's text; larger: a document, split it first
inline constexpr size_t kFactPartTokens = 200;    // a longer text becomes linked parts: the embedder sees 256, less
                                                  // [CLS] and [SEP], and a part carries its date (up to 15 tokens)
inline constexpr size_t kFactsPerFile = 1'000'000;
inline constexpr int kJsonNesting = 1000;  // of any JSON from outside; writing it out recurses, 200 bytes a level
inline constexpr size_t kJsonLineBytes = 4 * 1024 * 1024;  // kFactBytes of control characters escape to six bytes each
inline constexpr size_t kIdBytes = 256;
inline constexpr size_t kGivenIdBytes = kIdBytes - 8;  // by the application: a part adds "#" and up to seven digits
inline constexpr uint64_t kKvBudgetBytes = uint64_t{1} << 60;  // what may be asked for, from
inline constexpr uint64_t kKvBudgetBytesMin = 1 << 20;         // one fact of a small model on: 5 for 5GiB keeps none
inline constexpr size_t kFactFileBytes = size_t{1} << 30;
inline constexpr size_t kNamespaceBytes = 512;

// Windows.
inline constexpr int kRunFacts = 20;                 // C, the default: 2.05 encoder tokens per fact token
inline constexpr int kRunFactsMax = 200;             // the largest C or N a user may ask for
inline constexpr int kRunTokens = 1024;              // a run, and an anchor, are each cut at this many tokens
inline constexpr size_t kRunBookBytes = 256u << 20;  // about 120 bytes for each of a million facts, twice

// Prompts.
inline constexpr size_t kQuestionBytes = 1024 * 1024;
inline constexpr int kTopKMax = 10'000;
inline constexpr int kTopKDefault = 50;
inline constexpr int kTailFactsDefault = 5;  // r
inline constexpr int kMaxTokensDefault = 64;
inline constexpr int kContextTokensDefault = 8192;  // capped by what the model was trained for
inline constexpr int kContextTokensMax = 1 << 20;

// Tokenizers and chat templates.
inline constexpr size_t kTokenizeSegmentBytes = 2048;   // given to llama.cpp at once: it is quadratic in added tokens
inline constexpr size_t kTemplateBytes = 256 * 1024;    // the longest known template has about 40 KiB
inline constexpr int kTemplateNesting = 128;            // brackets and blocks; parser and interpreter recurse
inline constexpr int kTemplateExpressionTokens = 4096;  // of one statement: operators nest to the left
inline constexpr int kTemplateRange = 100'000;          // numbers that one range() may give
inline constexpr size_t kRenderedBytes = 64u << 20;     // a rendered prompt
inline constexpr size_t kMessages = 10'000;             // of one conversation

// KV records.
inline constexpr uint32_t kRecordTokens = 4096;  // tokens of one record; a part is about 220
inline constexpr uint32_t kModelLayers = 1024;
inline constexpr uint32_t kModelKvHeads = 1024;
inline constexpr uint32_t kHeadDim = 1024;
inline constexpr size_t kRecordBytes = size_t{1} << 30;
inline constexpr uint32_t kCalibrationTokensMin = 2048;   // a percentile of 0.1 has two values
inline constexpr uint32_t kCalibrationTokensMax = 16384;  // 17 smallest and largest values of a channel are kept
inline constexpr size_t kPayloadPoolBytes = 256u << 20;   // freed buffers kept: 370 records of 700 KB
inline constexpr uint64_t kRecordCacheBytes = uint64_t{10} << 30;  // on disk: 15,000 records of 700 KB (SmolLM2-135M)
inline constexpr uint64_t kRecentRecordBytes = 256u << 20;         // read ones kept in memory: 370 of 700 KB
inline constexpr uint64_t kRecordMemoryBytes = uint64_t{1} << 30;  // records of one process that could not be stored

// The KV store.
inline constexpr uint64_t kSegmentBytes = uint64_t{256} << 20;   // 365 records of 700 KB; 10 GiB are 40 files
inline constexpr size_t kSegments = 65'536;                      // files of one store: 16 TiB
inline constexpr size_t kReadBatch = 65'536;                     // records of one call: kTopKMax and their neighbours
inline constexpr uint64_t kHotBytesDefault = uint64_t{1} << 30;  // 1,500 records of 700 KB; memory is taken as used
inline constexpr uint64_t kHotSetBytes = uint64_t{1} << 40;      // an address space of 47 bits holds 128 of them

// One launch of the inject or extract kernels.
inline constexpr size_t kPlanRequests = 4096;
inline constexpr size_t kPlanSources = 1 << 16;  // records, and spans of them: 64 requests of 1,024
inline constexpr size_t kPlanTokens = 1 << 20;
inline constexpr size_t kPlanBlocks = 1 << 22;  // entries of all block tables
inline constexpr size_t kCacheGroups = 64;      // block tables per request
inline constexpr size_t kRopeTables = 256;      // as core RopeSpec's variants

// The C interface.
inline constexpr size_t kTransferRing = 256;     // plans of launches whose tickets were not collected
inline constexpr size_t kApiHandles = 1u << 16;  // open ones of a kind; a step has one or two leases

// The embedded engine.
inline constexpr size_t kPrefixCellsBytes = 256u << 20;  // kept cells of headers and stems, LRU
inline constexpr size_t kEngineQueue = 256;              // requests waiting for the engine's thread
inline constexpr int kThreads = 512;                     // llama.cpp's GGML_MAX_N_THREADS: more would abort it

// Embedding.
inline constexpr int kEmbedTokens = 256;  // what all-MiniLM-L6-v2 was trained to see
inline constexpr int kEmbedDimMax = 8192;
inline constexpr size_t kEndpointTexts = 32;  // of one request: text-embeddings-inference takes no more by default
inline constexpr int kEndpointAttempts = 3;
inline constexpr size_t kEndpointAnswerBytes = 32u << 20;  // 32 vectors of 8192 numbers of 20 digits are 5.5 MB
inline constexpr size_t kVectorCacheRows = 1'000'000;      // kFactsPerFile; 1.5 GB for 384 dimensions

// GGUF files.
inline constexpr size_t kGgufTensors = 65'536;        // the largest models have about 2,000
inline constexpr size_t kGgufKeys = 4096;             // usual: 20 to 60
inline constexpr size_t kVocabularyTokens = 1 << 20;  // the largest known vocabulary has 262,144

// Search.
inline constexpr size_t kIndexRows = 10'000'000;    // one namespace's vectors: 15 GB of 384 elements
inline constexpr uint32_t kTopkRows = 1u << 30;     // of one search on vectors in one memory: 768 GB of 384 f16
inline constexpr uint32_t kTopkQueries = 1024;      // of one search
inline constexpr uint32_t kTopkOnDevice = 1024;     // k: one thread block sorts what it merges in shared memory
inline constexpr size_t kCommonTermFacts = 100;     // a rarer term is always searched for: its list costs microseconds
inline constexpr size_t kCommonPostings = 200'000;  // read at most where a question has common terms only: 3 MB
inline constexpr size_t kFilterBytes = 64 * 1024;
inline constexpr int kFilterDepth = 16;            // AND, OR and NOT in each other
inline constexpr int kFilterNesting = 64;          // of all lists and objects, values too
inline constexpr size_t kFilterConditions = 1000;  // in all
inline constexpr size_t kFilterValues = 10'000;    // of all lists of in and nin

// The durable memory.
inline constexpr size_t kIndexCacheBytes = size_t{1} << 30;  // vectors of namespaces in use: 650,000 of 384 elements
inline constexpr int64_t kEncodeDelayMicros = 60'000'000;    // a run waits that long for its next fact

// The catalog.
inline constexpr size_t kFactsPerBatch = 10'000;         // of one AddFacts, PutTurns, PutVectors: one transaction
inline constexpr size_t kMetadataBytes = 64 * 1024;      // of one fact
inline constexpr int kMetadataNesting = 32;              // objects and lists in each other: readers recurse
inline constexpr size_t kSupersedesPerFact = 1000;       // ids that one line of an import may name
inline constexpr uint64_t kTurnOrdinal = 1ull << 53;     // JSON's readers keep whole numbers up to this one
inline constexpr size_t kTermBytes = 256;                // a longer word finds nothing that a shorter one does not
inline constexpr size_t kTermsPerFact = kFactBytes / 2;  // one-letter words and their spaces
inline constexpr size_t kKeyBytes = 512;                 // idempotency keys, supersede keys, names of settings
inline constexpr size_t kSettingBytes = 1024 * 1024;
inline constexpr size_t kListPage = 1000;
inline constexpr size_t kHistoryPerFact = 1000;  // entries; the oldest updates go first
inline constexpr size_t kSeenPerRecord = 4096;   // an anchored window has at most 2 kRunFactsMax
inline constexpr size_t kTermsPerQuery = 1024;
inline constexpr size_t kFsckFindings = 1000;  // reported of one check
inline constexpr int kCatalogReaders = 8;      // connections: more only wait for the same cores
inline constexpr int64_t kIdempotencyMicros = 24ll * 3600 * 1'000'000;  // a key is remembered for a day
inline constexpr int64_t kEncodeBackoffMicros = 1'000'000;              // after the first failure; doubled each time
inline constexpr int64_t kEncodeBackoffMaxMicros = 3600ll * 1'000'000;

}  // namespace inferscale::limits
