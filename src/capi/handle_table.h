// What the C interface hands out instead of pointers: numbers that are never used twice, so that a closed handle, one
// of another kind or a foreign pointer is found out instead of followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/limits.h"

namespace inferscale::capi {

// Of all tables. Steps of 16 from a number that no address has: the first page is never mapped, and what programs
// confuse with handles are small numbers.
inline uintptr_t NextHandle() {
  static std::atomic<uintptr_t> next{uintptr_t{1} << 56};
  return next.fetch_add(16);
}

// Handle: the header's incomplete type. An object lives until its handle is taken and the last call that found it has
// returned. Thread-safe.
template <class Object, class Handle>
class HandleTable {
 public:
  explicit HandleTable(const char* kind) : kind_(kind) {}

  // kInUse: too many are open.
  Result<Handle*> Add(std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    if (objects_.size() >= limits::kApiHandles) {
      return Fail(ErrorCode::kInUse, std::string("too many open handles: close each ") + kind_ + " that is done");
    }
    const uintptr_t handle = NextHandle();
    objects_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle*>(handle);
  }

  Result<std::shared_ptr<Object>> Find(const Handle* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) return Unknown(handle);
    return found->second;
  }

  // The handle is known no more.
  Result<std::shared_ptr<Object>> Take(const Handle* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) return Unknown(handle);
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  tl::unexpected<Error> Unknown(const Handle* handle) const {
    if (handle == nullptr) return Fail(ErrorCode::kNotFound, std::string(kind_) + " is null: open one first");
    return Fail(ErrorCode::kNotFound, std::string("no open ") + kind_ + ": it was closed, or is something else");
  }

  const char* const kind_;
  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace inferscale::capi
