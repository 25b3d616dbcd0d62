#include "memory/memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "catalog/sqlite_catalog.h"
#include "core/fact.h"
#include "index/words.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

constexpr size_t kEmbedBatch = 32;
constexpr char kWordsSetting[] = "word_splitter";
constexpr char kEncodingSetting[] = "kv_encoding";
constexpr char kBudgetSetting[] = "kv_budget_bytes";
constexpr char kNameSpaceBudgetSetting[] = "kv_namespace_budget_bytes";
constexpr int kUpdateAttempts = 8;  // of writers who change the same fact at once, each but one has to read it again

// A part has at most so many tokens for the embedder, and so few bytes that no model makes more of it than a record may
// have: five bytes for a token of the embedder is English, one token for each byte the worst.
size_t PartTokens(const Embedder& embedder, std::string_view text) {
  return std::max(embedder.CountTokens(text), text.size() / 5);
}

// What is asked for, from now on; otherwise what was asked for last.
Result<KvEncoding> UseEncoding(Catalog& catalog, std::optional<KvEncoding> wanted) {
  TRY_ASSIGN(const std::optional<std::string> kept, catalog.GetSetting(kEncodingSetting));
  const std::optional<KvEncoding> now = kept ? ParseKvEncoding(*kept) : KvEncoding::kF16;
  if (wanted && wanted != now) TRY(catalog.SetSetting(kEncodingSetting, KvEncodingName(*wanted)));
  if (!wanted && !now) return Fail(ErrorCode::kCorrupt, "catalog: there is no KV encoding " + *kept);
  return wanted ? *wanted : *now;
}

// The same for a budget, where 0 asks for none: the default, if none was ever asked for.
Result<uint64_t> UseBytes(Catalog& catalog, const char* setting, uint64_t wanted) {
  TRY_ASSIGN(const std::optional<std::string> kept, catalog.GetSetting(setting));
  if (wanted > 0) {
    const std::string text = std::to_string(wanted);
    if (text != kept) TRY(catalog.SetSetting(setting, text));
    return wanted;
  }
  uint64_t bytes = 0;
  if (!kept) return bytes;
  const char* const end = kept->data() + kept->size();
  const auto [read, error] = std::from_chars(kept->data(), end, bytes);
  if (error != std::errc() || read != end)
    return Fail(ErrorCode::kCorrupt, fmt::format("catalog: {} is not a number of bytes", setting));
  return bytes;
}

Status CheckNameSpace(std::string_view name) {
  if (name.empty()) return Fail(ErrorCode::kInvalidArgument, "the namespace is empty: name one, such as user:alex");
  if (name.size() > limits::kNamespaceBytes)
    return Fail(ErrorCode::kTooLarge,
                fmt::format("the namespace has {} bytes, more than {}", name.size(), limits::kNamespaceBytes));
  return CheckGivenText(name, "namespace");
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::Open(const MemoryOptions& options, Embedder* embedder) {
  std::unique_ptr<Memory> memory(new Memory());
  memory->folder_ = options.data_folder;
  memory->embedder_ = embedder;
  memory->clock_ = options.clock;
  std::error_code error;
  const bool was_used = std::filesystem::exists(options.data_folder / "kv", error);
  if (std::filesystem::create_directories(options.data_folder, error))
    std::filesystem::permissions(options.data_folder, std::filesystem::perms::owner_all, error);
  TRY_ASSIGN(memory->lock_, DirLock::Acquire(options.data_folder, options.command));
  SqliteOptions sqlite;
  sqlite.vfs = options.vfs;
  sqlite.clock = options.clock;
  sqlite.was_used = was_used;
  sqlite.check_pages = options.check_pages;
  SqliteOpenReport opened;
  TRY_ASSIGN(memory->catalog_, OpenSqliteCatalog(options.data_folder, sqlite, &opened));
  if (opened.changes_lost)
    spdlog::warn(
        "{}: the log of the process before this one, which crashed, was damaged or taken away: what it stored last may "
        "be lost (`inferscale fsck` has the details)",
        options.data_folder.string());
  Catalog& catalog = *memory->catalog_;
  if (embedder != nullptr && !options.any_embedder)
    TRY(catalog.UseEmbedder({embedder->name(), embedder->key(), embedder->dim()}));
  KvVaultOptions kv = options.kv;
  kv.folder = options.data_folder / "kv";
  kv.calibration_folder = options.data_folder / "calibrations";
  TRY_ASSIGN(kv.encoding, UseEncoding(catalog, options.kv_encoding));
  TRY_ASSIGN(kv.disk_bytes, UseBytes(catalog, kBudgetSetting, kv.disk_bytes));
  TRY_ASSIGN(kv.name_space_bytes, UseBytes(catalog, kNameSpaceBudgetSetting, kv.name_space_bytes));
  kv.files = options.files;
  TRY_ASSIGN(memory->vault_, KvVault::Open(kv, catalog));
  if (opened.unclean && options.check_pages) TRY(catalog.Scrub());  // what a crash left of a deletion
  const uint32_t dims = embedder != nullptr ? embedder->dim() : 1;  // without one nothing is searched
  memory->indexes_ = std::make_unique<NameSpaceIndexCache>(catalog, dims, options.index_bytes);
  TRY_ASSIGN(const std::optional<std::string> words, catalog.GetSetting(kWordsSetting));
  if (!words) TRY(catalog.SetSetting(kWordsSetting, WordSplitterVersion()));
  if (words && *words != WordSplitterVersion())
    spdlog::warn("keyword terms were made by another version of the word splitter: `inferscale reembed` renews them");
  return memory;
}

Memory::~Memory() = default;

bool Memory::IsIn(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "catalog.db", error) || std::filesystem::exists(folder / "kv", error);
}

void Memory::SetChangeListener(std::function<void(const Change&)> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

Status Memory::NeedEmbedder() const {
  if (embedder_ != nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument, "this needs an embedder: name one with --embed-model");
}

Result<FactContent> Memory::Split(std::string text, std::optional<Date> date) const {
  FactContent content;
  content.date = date;
  Fact whole;
  whole.id = "f";  // of no meaning: the catalog names the parts
  whole.text = text;
  whole.date = date;
  const auto count = [&](std::string_view piece) { return PartTokens(*embedder_, piece); };
  TRY_ASSIGN(std::vector<Fact> parts, SplitLongFacts({std::move(whole)}, count, limits::kFactPartTokens));
  content.text = std::move(text);
  if (parts.size() > 1)
    for (Fact& part : parts) content.parts.push_back({std::move(part.text), {}});
  return content;
}

Status Memory::FillSearchData(std::span<const std::string> texts, std::span<SearchData* const> data) {
  for (size_t at = 0; at < texts.size(); at += kEmbedBatch) {
    const size_t end = std::min(texts.size(), at + kEmbedBatch);
    const std::vector<std::string_view> batch(texts.begin() + static_cast<std::ptrdiff_t>(at),
                                              texts.begin() + static_cast<std::ptrdiff_t>(end));
    TRY_ASSIGN(const std::vector<float> vectors, embedder_->Embed(batch));
    for (size_t i = at; i < end; ++i) {
      const auto first = vectors.begin() + static_cast<std::ptrdiff_t>((i - at) * embedder_->dim());
      data[i]->vector.assign(first, first + embedder_->dim());
      TRY_ASSIGN(SplitText words, SplitWords(texts[i]));
      data[i]->terms = std::move(words.terms);
      data[i]->words = words.words;
    }
  }
  return {};
}

Status Memory::FillSearchData(std::span<FactContent> contents) {
  std::vector<std::string> texts;
  std::vector<SearchData*> data;
  for (FactContent& content : contents) {
    if (content.parts.empty()) {
      texts.push_back(FactPromptText(content.text, content.date));
      data.push_back(&content.search);
    }
    for (NewPart& part : content.parts) {
      texts.push_back(FactPromptText(part.text, content.date));
      data.push_back(&part.search);
    }
  }
  return FillSearchData(texts, data);
}

Status Memory::Follow(const Change& change) {
  const Status destroyed = vault_->Destroy(change.dead);
  {
    const std::lock_guard lock(listener_mutex_);
    if (listener_) listener_(change);
  }
  return destroyed;
}

namespace {

// The rows of what was added or updated, for the index: those of its parts, or its own.
Status AddRows(NameSpaceIndex& index, FactSeq seq, const std::vector<FactSeq>& parts, const FactContent& content,
               std::optional<Micros> expires_us) {
  if (content.parts.empty()) return index.Add(seq, content.search.vector, content.search.words, expires_us);
  for (size_t i = 0; i < content.parts.size(); ++i) {
    const SearchData& search = content.parts[i].search;
    TRY(index.Add(parts[i], search.vector, search.words, expires_us));
  }
  return {};
}

}  // namespace

Result<AddResult> Memory::Remember(std::string_view name_space, std::span<const FactInput> facts,
                                   const RememberOptions& options) {
  TRY(NeedEmbedder());
  TRY(CheckNameSpace(name_space));
  if (facts.size() > limits::kFactsPerBatch)
    return Fail(ErrorCode::kTooLarge, fmt::format("{} facts in one call, more than {}: send them in several",
                                                  facts.size(), limits::kFactsPerBatch));
  std::vector<FactContent> contents;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (const Status valid = CheckFactInput(facts[i]); !valid)
      return Wrap(valid.error(), fmt::format("fact {}", i + 1));
    TRY_ASSIGN(FactContent content, Split(facts[i].text, facts[i].date));
    contents.push_back(std::move(content));
  }
  TRY(FillSearchData(contents));
  std::vector<NewFact> rows;
  for (size_t i = 0; i < facts.size(); ++i) {
    const FactInput& fact = facts[i];
    rows.push_back({fact.id, std::move(contents[i]), fact.order_day, fact.expires_us, fact.metadata, fact.scope,
                    fact.turn, fact.supersede_key, fact.supersedes});
  }
  AddOptions add;
  add.idempotency_key = options.idempotency_key;
  // A full run has nothing to wait for.
  add.due_us = Now() + (facts.size() >= limits::kRunFacts ? 0 : options.encode_delay_us);
  TRY_ASSIGN(const NamespaceId ns, catalog_->OpenNamespace(name_space));
  AddResult result;
  const auto commit = [&]() -> Status {
    TRY_ASSIGN(result, catalog_->AddFacts(ns, rows, add));
    return {};
  };
  const auto apply = [&](NameSpaceIndex& index) -> Status {
    for (size_t i = 0; i < rows.size(); ++i)
      if (!result.replayed && result.facts[i].outcome == AddOutcome::kAdded)
        TRY(AddRows(index, result.facts[i].seq, result.facts[i].parts, rows[i].content, rows[i].expires_us));
    index.Apply(result.change);
    return {};
  };
  TRY(indexes_->Change(ns, commit, apply));
  catalog_->Touch(ns);
  TRY(Follow(result.change));
  return result;
}

Result<UpdateResult> Memory::UpdateOnce(NamespaceId ns, std::string_view id, const Update& update) {
  TRY_ASSIGN(const FactRow old, catalog_->GetFact(ns, id));
  FactUpdate change;
  change.expires_us = update.expires_us;
  change.metadata = update.metadata;
  change.expected_version = update.expected_version;
  change.due_us = Now() + update.encode_delay_us;
  if (update.text || update.date) {
    TRY(NeedEmbedder());
    FactInput input;
    input.text = update.text.value_or(old.text);
    input.date = update.date.value_or(old.date);
    TRY(CheckFactInput(input));
    TRY_ASSIGN(change.content, Split(std::move(input.text), input.date));
    TRY(FillSearchData({&*change.content, 1}));
    if (!change.expected_version) change.expected_version = old.version;  // what the other half was read from
  }
  if (update.metadata) {
    FactInput input;
    input.text = "x";
    input.metadata = *update.metadata;
    TRY(CheckFactInput(input));
  }
  UpdateResult result;
  const auto commit = [&]() -> Status {
    TRY_ASSIGN(result, catalog_->UpdateFact(ns, id, change));
    return {};
  };
  const auto apply = [&](NameSpaceIndex& index) -> Status {
    TRY_ASSIGN(const FactRow now, catalog_->GetFact(ns, id));  // others may have changed it since `old` was read
    if (!result.content_changed) {
      index.Apply(result.change);
      TRY_ASSIGN(const std::vector<FactRow> parts, catalog_->GetParts(ns, result.seq));
      index.SetExpiry(result.seq, now.expires_us);
      for (const FactRow& part : parts) index.SetExpiry(part.seq, now.expires_us);
      return {};
    }
    // The row's vector is replaced: the old one goes with its bytes.
    Change gone = result.change;
    gone.removed.push_back(result.seq);
    index.Apply(gone);
    TRY(AddRows(index, result.seq, result.parts, *change.content, now.expires_us));
    if (!now.superseded_by.empty())
      index.Apply({.superseded = result.parts.empty() ? std::vector{result.seq} : result.parts});
    return {};
  };
  TRY(indexes_->Change(ns, commit, apply));
  TRY(Follow(result.change));
  return result;
}

Result<UpdateResult> Memory::UpdateFact(std::string_view name_space, std::string_view id, const Update& update) {
  TRY_ASSIGN(const NamespaceInfo ns, Find(name_space));
  for (int attempt = 1;; ++attempt) {
    auto result = UpdateOnce(ns.id, id, update);
    const bool again = !result && result.error().code == ErrorCode::kConflict && !update.expected_version;
    if (!again || attempt == kUpdateAttempts) return result;
  }
}

Result<PutTurnsResult> Memory::PutTurns(std::string_view name_space, std::span<const NewTurn> turns) {
  TRY(CheckNameSpace(name_space));
  for (size_t i = 0; i < turns.size(); ++i) {
    Status valid = CheckGivenId(turns[i].id, "id");
    if (valid) valid = CheckFactText(turns[i].text);
    if (valid && !turns[i].speaker.empty()) valid = CheckGivenId(turns[i].speaker, "speaker");
    if (!valid) return Wrap(valid.error(), fmt::format("turn {}", i + 1));
  }
  TRY_ASSIGN(const NamespaceId ns, catalog_->OpenNamespace(name_space));
  PutTurnsResult result;
  const auto commit = [&]() -> Status {
    TRY_ASSIGN(result, catalog_->PutTurns(ns, turns));
    return {};
  };
  TRY(indexes_->Change(ns, commit, [](NameSpaceIndex&) { return Status(); }));
  TRY(Follow(result.change));
  return result;
}

Result<MemoryStats> Memory::Stats() {
  MemoryStats stats;
  for (NamespaceId after = 0;;) {
    TRY_ASSIGN(const std::vector<NamespaceInfo> page, catalog_->ListNamespaces(after, limits::kListPage));
    if (page.empty()) break;
    for (const NamespaceInfo& ns : page) {
      ++stats.namespaces;
      stats.facts += ns.facts;
      stats.kv_bytes += ns.kv_bytes;
    }
    after = page.back().id;
  }
  TRY(catalog_->ScanRecords([&](const KvRow& row) {
    ++stats.records;
    ++stats.records_as[row.encoding];
    return true;
  }));
  stats.kv_encoding = vault_->encoding();
  const SegmentStoreStats store = vault_->store_stats();
  stats.kv_file_bytes = store.allocated_bytes;
  stats.kv_budget_bytes = vault_->disk_budget();
  stats.kv_namespace_budget_bytes = vault_->name_space_budget();
  TRY_ASSIGN(const std::vector<DeadRecord> pending, catalog_->PendingErase(limits::kListPage));
  stats.erase_pending = pending.size();
  TRY_ASSIGN(stats.queue, catalog_->CountQueue());
  return stats;
}

Result<std::vector<FsckFinding>> Memory::Fsck(bool repair) {
  TRY_ASSIGN(std::vector<FsckFinding> findings, catalog_->Fsck(repair));
  TRY_ASSIGN(const std::vector<DamagedRange> damaged, vault_->Verify());
  for (const DamagedRange& range : damaged)
    findings.push_back({fmt::format("KV segment {} is damaged at byte {} ({} bytes); its records are dropped and their "
                                    "facts queued to be encoded again",
                                    range.segment, range.offset, range.bytes),
                        true});
  if (repair && embedder_ != nullptr) TRY(Reembed({}));  // vectors and terms that were damaged
  const Status scrubbed = catalog_->Scrub();             // what a crash left of a deletion
  if (findings.empty() && !scrubbed) return tl::unexpected<Error>(scrubbed.error());
  return findings;
}

Status Memory::Reembed(const std::function<void(size_t, size_t)>& progress) {
  TRY(NeedEmbedder());
  TRY_ASSIGN(const std::optional<EmbedderInfo> old, catalog_->CurrentEmbedder());
  const EmbedderInfo present{embedder_->name(), embedder_->key(), embedder_->dim()};
  TRY_ASSIGN(const std::optional<std::string> words, catalog_->GetSetting(kWordsSetting));
  if (!old || *old != present || words != WordSplitterVersion()) TRY(catalog_->SwitchEmbedder(present));
  uint64_t total = 0, done = 0;
  for (NamespaceId after = 0;;) {
    TRY_ASSIGN(const std::vector<NamespaceInfo> page, catalog_->ListNamespaces(after, limits::kListPage));
    if (page.empty()) break;
    for (const NamespaceInfo& ns : page) total += ns.searchable;
    after = page.back().id;
  }
  for (FactSeq after = 0;;) {
    TRY_ASSIGN(const std::vector<FactRow> rows, catalog_->FactsToEmbed(after, kEmbedBatch * 8));
    if (rows.empty()) break;
    std::vector<FactVector> vectors;
    std::vector<std::string> texts;
    for (const FactRow& row : rows) {
      vectors.push_back({row.seq, row.version, {}});
      texts.push_back(FactPromptText(row.text, row.date));
    }
    std::vector<SearchData*> data;
    for (FactVector& vector : vectors) data.push_back(&vector.search);
    TRY(FillSearchData(texts, data));
    TRY(catalog_->PutVectors(vectors));
    after = rows.back().seq;
    done += rows.size();
    if (progress) progress(done, std::max(done, total));
  }
  indexes_->Clear(embedder_->dim());
  return catalog_->SetSetting(kWordsSetting, WordSplitterVersion());
}

}  // namespace inferscale
