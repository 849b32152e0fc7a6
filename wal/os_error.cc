#include "os_error.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <rocksdb/status.h>

namespace countwheel::wal {
namespace {

struct Meaning {
  int error;
  Code code;
};

constexpr std::array<Meaning, 13> kMeanings = {{
    {EACCES, Code::kPermission},
    {EPERM, Code::kPermission},
    {EROFS, Code::kReadOnly},
    {ENOENT, Code::kNotADirectory},
    {ENOTDIR, Code::kNotADirectory},
    {ELOOP, Code::kNotADirectory},
    {ENAMETOOLONG, Code::kInvalidArgument},
    {ENOSPC, Code::kNoSpace},
    {EDQUOT, Code::kNoSpace},
    {EMFILE, Code::kResource},
    {ENFILE, Code::kResource},
    {ENOMEM, Code::kResource},
    {EAGAIN, Code::kResource},
}};

std::string describe(std::string_view path, std::string_view action, std::string_view reason) {
  std::string text(path);
  text.append(": cannot ").append(action).append(": ").append(reason);
  return text;
}

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

}  // namespace

Status os_error(int error, std::string_view path, std::string_view action) {
  Code code = Code::kJournalFailed;
  for (const Meaning& meaning : kMeanings) {
    if (meaning.error == error) {
      code = meaning.code;
    }
  }
  return Status(code, describe(path, action, reason_of(error)));
}

Status rocksdb_error(const rocksdb::Status& status,
                     std::string_view path,
                     std::string_view action) {
  const std::string reason = status.ToString();
  Code code = Code::kJournalFailed;
  if (status.IsNoSpace()) {
    code = Code::kNoSpace;
  } else if (status.IsCorruption() || status.IsPathNotFound() || status.IsNotFound()) {
    code = Code::kCorrupt;
  } else if (status.IsInvalidArgument()) {
    code = Code::kInvalidArgument;
  } else if (status.IsIOError()) {
    for (const Meaning& meaning : kMeanings) {
      if (reason.find(reason_of(meaning.error)) != std::string::npos) {
        // A file that the log needs and that is not there is damage, not a wrong path.
        code = meaning.code == Code::kNotADirectory ? Code::kCorrupt : meaning.code;
        break;
      }
    }
  }
  return Status(code, describe(path, action, reason));
}

}  // namespace countwheel::wal
