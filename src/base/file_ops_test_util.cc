#include "base/file_ops_test_util.h"

#include <fstream>
#include <map>
#include <random>

#include "base/assert.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

constexpr size_t kSector = 512;  // what a disk writes whole or not at all

using Kind = FileOp::Kind;
using Coin = std::function<bool()>;

// A file's content on the disk, and what is only in memory.
struct Inode {
  std::string content;
  std::vector<const FileOp*> pending;
};
using InodePtr = std::shared_ptr<Inode>;

void SetLength(std::string& content, uint64_t length) { content.resize(length, '\0'); }

void Apply(std::string& content, const FileOp& op) {
  if (op.kind == Kind::kTruncate) return SetLength(content, op.length);
  if (op.kind == Kind::kPunch) {
    for (uint64_t i = op.offset; i < std::min<uint64_t>(op.offset + op.length, content.size()); ++i) content[i] = '\0';
    return;
  }
  if (content.size() < op.offset + op.bytes.size()) SetLength(content, op.offset + op.bytes.size());
  content.replace(op.offset, op.bytes.size(), op.bytes);
}

// A part of the operation: a coin for the length, and one for each sector.
void ApplyTorn(std::string& content, const FileOp& op, const Coin& coin) {
  if (op.kind != Kind::kWrite) {
    if (coin()) Apply(content, op);
    return;
  }
  const uint64_t end = op.offset + op.bytes.size();
  if (content.size() < end && coin()) SetLength(content, end);
  for (uint64_t at = op.offset; at < end;) {
    const uint64_t next = std::min<uint64_t>(end, (at / kSector + 1) * kSector);
    if (coin()) {
      FileOp sector{.kind = Kind::kWrite, .name = {}, .to = {}, .offset = at};
      sector.bytes = op.bytes.substr(at - op.offset, next - at);
      Apply(content, sector);
    }
    at = next;
  }
}

std::string FolderOf(const std::string& name) { return fs::path(name).parent_path().string(); }

// The disk: durable names, and the names as the running system sees them.
struct Disk {
  std::map<std::string, InodePtr> live, durable;
  std::map<std::string, bool> live_folders;  // name -> durable
  std::vector<const FileOp*> pending_names;

  void Run(const FileOp& op);
  void ChangeName(std::map<std::string, InodePtr>& names, const FileOp& op) const;
  void Finish(Unsynced unsynced, const Coin& coin);

  std::map<const FileOp*, InodePtr> made;  // by kCreate
};

void Disk::ChangeName(std::map<std::string, InodePtr>& names, const FileOp& op) const {
  if (op.kind == Kind::kCreate) names[op.name] = made.at(&op);
  if (op.kind == Kind::kUnlink) names.erase(op.name);
  if (op.kind == Kind::kRename && names.contains(op.name)) {
    names[op.to] = names[op.name];
    names.erase(op.name);
  }
}

void Disk::Run(const FileOp& op) {
  switch (op.kind) {
    case Kind::kMakeFolder:
      live_folders[op.name] = true;
      return;
    case Kind::kCreate:
      made[&op] = std::make_shared<Inode>();
      [[fallthrough]];
    case Kind::kUnlink:
    case Kind::kRename:
      ChangeName(live, op);
      pending_names.push_back(&op);
      return;
    case Kind::kSyncFolder:
      std::erase_if(pending_names, [&](const FileOp* name) {
        if (FolderOf(name->name) != op.name) return false;
        ChangeName(durable, *name);
        return true;
      });
      return;
    default:
      break;
  }
  const auto file = live.find(op.name);
  if (file == live.end()) return;  // of a file that was removed while it was open
  if (op.kind != Kind::kSync) {
    file->second->pending.push_back(&op);
    return;
  }
  for (const FileOp* pending : file->second->pending) Apply(file->second->content, *pending);
  file->second->pending.clear();
}

void Disk::Finish(Unsynced unsynced, const Coin& coin) {
  // A journal commits changes of names in their order: a torn one is a prefix.
  for (const FileOp* op : pending_names) {
    if (unsynced == Unsynced::kDropped || (unsynced == Unsynced::kTorn && !coin())) break;
    ChangeName(durable, *op);
  }
  for (const auto& [name, inode] : durable) {
    for (const FileOp* op : inode->pending) {
      if (unsynced == Unsynced::kKept) Apply(inode->content, *op);
      if (unsynced == Unsynced::kTorn) ApplyTorn(inode->content, *op, coin);
    }
    inode->pending.clear();
  }
}

}  // namespace

void MakeAfterPowerCut(const std::vector<FileOp>& ops, size_t count, Unsynced unsynced, uint64_t seed,
                       const fs::path& target) {
  INFERSCALE_ASSERT(count <= ops.size() && !fs::exists(target));
  std::mt19937_64 random(seed);
  Disk disk;
  for (size_t i = 0; i < count; ++i) disk.Run(ops[i]);
  disk.Finish(unsynced, [&random] { return (random() & 1) != 0; });
  fs::create_directories(target);
  for (const auto& [name, durable] : disk.live_folders) fs::create_directories(target / name);
  for (const auto& [name, inode] : disk.durable) {
    fs::create_directories((target / name).parent_path());
    std::ofstream out(target / name, std::ios::binary);
    out.write(inode->content.data(), static_cast<std::streamsize>(inode->content.size()));
    INFERSCALE_ASSERT(out.good());
  }
}

namespace {

class RecordingFile final : public File {
 public:
  RecordingFile(RecordingFiles* files, std::string name, std::unique_ptr<File> file)
      : files_(files), name_(std::move(name)), file_(std::move(file)) {}

  Status Write(uint64_t offset, std::span<const std::string_view> pieces) override {
    FileOp op{.kind = Kind::kWrite, .name = name_, .to = {}, .offset = offset};
    for (const std::string_view piece : pieces) op.bytes.append(piece);
    TRY(files_->Note(std::move(op)));
    return file_->Write(offset, pieces);
  }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> into) override { return file_->Read(offset, into); }
  Status Sync() override {
    TRY(files_->Note({.kind = Kind::kSync, .name = name_}));
    return {};  // the log is what counts; a real sync would only take time
  }
  Status Truncate(uint64_t bytes) override {
    TRY(files_->Note({.kind = Kind::kTruncate, .name = name_, .to = {}, .offset = 0, .length = bytes}));
    return file_->Truncate(bytes);
  }
  Result<bool> PunchHole(uint64_t offset, uint64_t bytes) override {
    if (!files_->can_punch) return false;
    TRY(files_->Note({.kind = Kind::kPunch, .name = name_, .to = {}, .offset = offset, .length = bytes}));
    return file_->PunchHole(offset, bytes);
  }
  Result<FileSize> Size() override { return file_->Size(); }
  int descriptor() const override { return file_->descriptor(); }

 private:
  RecordingFiles* const files_;
  const std::string name_;
  const std::unique_ptr<File> file_;
};

}  // namespace

Status RecordingFiles::Note(FileOp op) {
  if (before) TRY(before(op));
  log_->Add(std::move(op));
  return {};
}

std::string RecordingFiles::NameOf(const fs::path& path) const {
  const std::string name = path.lexically_relative(root_).string();
  INFERSCALE_ASSERT(!name.starts_with(".."));
  return name == "." ? "" : name;
}

Result<std::unique_ptr<File>> RecordingFiles::Open(const fs::path& path, OpenMode mode) {
  if (mode == OpenMode::kCreate) TRY(Note({.kind = Kind::kCreate, .name = NameOf(path)}));
  TRY_ASSIGN(std::unique_ptr<File> file, PosixFiles().Open(path, mode));
  return std::make_unique<RecordingFile>(this, NameOf(path), std::move(file));
}

Status RecordingFiles::Unlink(const fs::path& path) {
  TRY(Note({.kind = Kind::kUnlink, .name = NameOf(path)}));
  return PosixFiles().Unlink(path);
}

Status RecordingFiles::Rename(const fs::path& from, const fs::path& to) {
  TRY(Note({.kind = Kind::kRename, .name = NameOf(from), .to = NameOf(to)}));
  return PosixFiles().Rename(from, to);
}

Status RecordingFiles::MakeFolder(const fs::path& folder) {
  TRY(Note({.kind = Kind::kMakeFolder, .name = NameOf(folder)}));
  return PosixFiles().MakeFolder(folder);
}

Status RecordingFiles::SyncFolder(const fs::path& folder) {
  TRY(Note({.kind = Kind::kSyncFolder, .name = NameOf(folder)}));
  return {};
}

Result<std::vector<std::string>> RecordingFiles::List(const fs::path& folder) { return PosixFiles().List(folder); }

}  // namespace inferscale
