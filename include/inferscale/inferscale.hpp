// The C interface's handles as owners: each is closed when it goes. Everything else is called as it is.
#pragma once

#include <memory>

#include "inferscale/inferscale.h"

namespace inferscale::api {

template <auto kClose>
struct Close {
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)kClose(handle);
  }
};

using Device = std::unique_ptr<inferscale_device, Close<inferscale_device_close>>;
using Arena = std::unique_ptr<inferscale_arena, Close<inferscale_arena_close>>;
using Lease = std::unique_ptr<inferscale_lease, Close<inferscale_lease_release>>;
using Transfer = std::unique_ptr<inferscale_transfer, Close<inferscale_transfer_close>>;

// For the last parameter of a function that opens: inferscale_device_open(kind, 0, Into(device)). What the owner had is
// closed first.
template <class Owner>
class Into {
 public:
  explicit Into(Owner& owner) : owner_(owner) { owner_.reset(); }
  ~Into() { owner_.reset(handle_); }
  Into(const Into&) = delete;
  Into& operator=(const Into&) = delete;
  operator typename Owner::pointer *() { return &handle_; }

 private:
  Owner& owner_;
  typename Owner::pointer handle_ = nullptr;
};

}  // namespace inferscale::api
