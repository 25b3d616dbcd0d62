// 8 writers and 32 readers on one catalog.
#pragma once

#include <chrono>

#include "catalog/catalog.h"

namespace inferscale {

// Runs them in namespace `ns`, which is empty, and checks with gtest: no call fails, no update is lost, readers see
// whole transactions only, in their order.
void RunThreads(Catalog& catalog, NamespaceId ns, std::chrono::seconds duration);

}  // namespace inferscale
