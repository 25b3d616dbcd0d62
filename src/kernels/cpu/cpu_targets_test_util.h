// Runs a test body once per SIMD target that this CPU and this build have, not only on the best one.
#pragma once

#include <functional>

namespace inferscale::kernels {

// Within body, the kernels dispatch to the one target. Restores the CPU's own choice.
void ForEachCpuTarget(const std::function<void()>& body);

}  // namespace inferscale::kernels
