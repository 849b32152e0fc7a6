// What the operating system and RocksDB say, in our codes.
#ifndef COUNTWHEEL_WAL_OS_ERROR_H_
#define COUNTWHEEL_WAL_OS_ERROR_H_

#include <string>
#include <string_view>

#include <countwheel/status.h>

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace countwheel::wal {

// "<path>: cannot <action>: <reason>". `error` is an errno.
Status os_error(int error, std::string_view path, std::string_view action);

// The same of RocksDB, whose text names the file. It reports most errors of the system as one code
// and a text, so the text is looked at.
Status rocksdb_error(const rocksdb::Status& status, std::string_view path, std::string_view action);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_OS_ERROR_H_
