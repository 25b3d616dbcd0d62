#include <vector>

#include "capi/backend.h"
#include "kernels/cpu/kv_transfer.h"
#include "kernels/cpu/topk.h"

namespace inferscale::capi {
namespace {

using kernels::KvDirection;

class CpuPlanSlot final : public PlanSlot {
 public:
  explicit CpuPlanSlot(size_t bytes) : buffer_(bytes) {
    static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);  // what a plan needs
  }

  std::span<uint8_t> buffer() override { return buffer_; }
  Status Launch(const kernels::KvPlan& plan, KvDirection direction, void*) override {
    const kernels::KvPlanView view = plan.View(buffer_.data());
    direction == KvDirection::kInject ? kernels::InjectCpu(view) : kernels::ExtractCpu(view);
    words_ = view.status;
    return {};
  }
  Result<bool> Ended() override { return true; }
  Status Wait() override { return {}; }
  const uint32_t* words() const override { return words_; }

 private:
  std::vector<uint8_t> buffer_;
  const uint32_t* words_ = nullptr;
};

class CpuBackend final : public Backend {
 public:
  int Enter() override { return 0; }
  void Leave(int) override {}
  Status CheckStream(void* stream) const override {
    if (stream == nullptr) return {};
    return Fail(ErrorCode::kInvalidArgument, "the CPU has no streams: pass null");
  }
  Status RegisterHost(void*, uint64_t, bool) override { return {}; }
  Status UnregisterHost(void*) override { return {}; }
  Result<std::unique_ptr<ArenaMemory>> MakeArenaMemory(uint64_t bytes, void*) override {
    return MakeHostArenaMemory(bytes);
  }
  Result<std::unique_ptr<PlanSlot>> MakePlanSlot(size_t plan_bytes) override {
    return std::make_unique<CpuPlanSlot>(plan_bytes);
  }
  uint64_t TopkWorkspaceBytes(const kernels::TopkArgs&) const override { return 0; }
  Status Topk(const kernels::TopkArgs& args, void*, void*) override {
    kernels::TopkCpu(args);
    return {};
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace inferscale::capi
