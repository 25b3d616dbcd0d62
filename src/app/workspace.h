// Everything `ask` and `demo` work with, opened in the order in which it can fail: input files first, models next,
// encoding last.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/fact.h"
#include "core/window.h"
#include "embed/embedder.h"
#include "engine/engine.h"
#include "index/vector_cache.h"
#include "memory/answer.h"
#include "memory/encoder.h"
#include "memory/file_source.h"

namespace inferscale {

struct EngineFlags {
  std::filesystem::path model;
  std::filesystem::path embed_model;
  std::filesystem::path cache_folder;
  int threads = 0;
  uint32_t context_tokens = 0;
};

struct WorkspaceOptions {
  EngineFlags engine;
  std::vector<Fact> facts;  // as read
  std::vector<Turn> turns;
  std::string facts_source;  // names the facts' origin: runs are kept per source (a path, "demo")
  WindowSpec window;
  bool text_only = false;  // no encoding, no injection
  // What will be asked: one that can never fit the context is refused before hours of encoding.
  std::vector<std::string> questions;
  uint32_t max_tokens = 1;  // of each answer
};

class Workspace {
 public:
  // Progress and notes go to standard error unless quiet; warnings always.
  static Result<std::unique_ptr<Workspace>> Open(WorkspaceOptions options, bool quiet);

  AnswerContext context();
  const EngineInfo& engine() const { return engine_->info(); }
  const FactSet& facts() const { return *facts_; }
  // Why nothing is injected although it was asked for; "" when facts are injected, or text mode was asked for.
  const std::string& text_mode_reason() const { return text_mode_reason_; }
  const EncodeStats& encode_stats() const { return encode_stats_; }

 private:
  Workspace() = default;
  Status OpenEngine(const WorkspaceOptions& options, bool quiet);
  Status CheckQuestions(const WorkspaceOptions& options) const;
  Status PrepareFacts(std::vector<Fact> facts, const EngineFlags& flags, bool quiet);
  Status Encode(const WorkspaceOptions& options, bool quiet);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<VectorCache> vectors_;
  std::unique_ptr<RecordCache> records_;
  std::optional<PromptLayout> layout_;
  std::optional<FactSet> facts_;
  std::optional<Encoder> encoder_;
  std::optional<FileSource> source_;
  EncodeStats encode_stats_;
  std::string text_mode_reason_;
};

}  // namespace inferscale
