// Encoding in the foreground: what `encode`, and `import --encode`, do and say.
#pragma once

#include <nlohmann/json.hpp>

#include "app/memory_session.h"
#include "base/error.h"
#include "memory/fact_encoder.h"

namespace inferscale {

struct EncodeRun {
  EncodeStats stats;
  size_t text = 0;  // facts without KV for this model that wait for none: Catalog::CountWithoutKv
};

// Encodes the namespace of `flags`, or every one, with a progress bar unless quiet. Collects expired facts first and
// compacts the store at the end.
Result<EncodeRun> RunEncoding(MemorySession& session, const MemoryFlags& flags, EncodeWhat what, bool every_namespace);

nlohmann::ordered_json EncodeRunToJson(const EncodeRun& run, const KvVault& vault);
void PrintEncodeRun(const EncodeRun& run, const KvVault& vault);
// The exit status; a warning where some facts could not be encoded.
int EncodeStatus(const EncodeStats& stats);

}  // namespace inferscale
