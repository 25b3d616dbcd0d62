// The start-up proof that injection is right for this model on this machine (docs/architecture.md): a text's own KV,
// injected at shifted positions, must continue as a plain prefill does; without rotation it must not.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "core/types.h"
#include "engine/engine.h"
#include "engine/llama/llama_session.h"
#include "engine/tokenizer.h"

namespace inferscale {

// Takes one prefill of about 560 tokens and a few decode steps per shift: 2 to 3 s for a 135M model on two cores.
// The report says whether it passed; an Error means that it cannot be made (kModelUnsupported: the context or the
// vocabulary does not allow it) or that the engine broke down. on_step (may be null): steps done, of how many.
Result<SelfTestReport> RunSelfTest(LlamaSession& session, const Tokenizer& tokenizer,
                                   const std::function<void(size_t done, size_t total)>& on_step);

// A passed or failed report kept from an earlier start under the same identity: model, llama.cpp build, threads,
// context.
std::optional<SelfTestReport> LoadSelfTest(const std::filesystem::path& folder, const Hash128& identity);
void SaveSelfTest(const std::filesystem::path& folder, const Hash128& identity, const SelfTestReport& report);

}  // namespace inferscale
