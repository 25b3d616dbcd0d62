#include "capi/handles.h"

namespace inferscale::capi {
namespace {

template <class Table>
Table& Forever(const char* kind) {
  return *std::make_unique<Table>(kind).release();
}

}  // namespace

Devices& AllDevices() {
  static Devices& table = Forever<Devices>("device");
  return table;
}

Arenas& AllArenas() {
  static Arenas& table = Forever<Arenas>("arena");
  return table;
}

Leases& AllLeases() {
  static Leases& table = Forever<Leases>("lease");
  return table;
}

Transfers& AllTransfers() {
  static Transfers& table = Forever<Transfers>("transfer");
  return table;
}

}  // namespace inferscale::capi
