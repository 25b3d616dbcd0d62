// SQLite's write-ahead log after a crash. SQLite takes it to end at the first frame whose checksum does not fit: what a
// power cut left half written, which nobody was promised. It does the same when a disk changed a byte in the middle,
// and then loses what was acknowledged without a word.
#pragma once

#include <filesystem>

#include "base/error.h"

namespace inferscale::sqlite {

// Whether the log of a database that nobody has open lost a transaction that was synced: behind the place where it does
// not fit, there is a whole transaction and more. Transactions are synced one by one, so a power cut leaves only one
// incomplete. Damage of the last transaction cannot be told from a power cut, nor can damage of
// the link between the last two. False without a log. kIo.
Result<bool> LogIsDamaged(const std::filesystem::path& log);

}  // namespace inferscale::sqlite
