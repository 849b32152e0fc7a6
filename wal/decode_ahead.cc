#include "decode_ahead.h"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "record.h"

namespace countwheel::wal {
namespace {

struct Piece {
  BlobHeader header;
  std::string blob;  // the operations point into it
  std::vector<Op> ops;
};

// A few pieces that go round between the two threads, so that their memory is used again.
class Pipe {
 public:
  // -- The reader --

  // The next to fill; null when nobody wants more.
  Piece* claim() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return filled_ - taken_ < pieces_.size() || stopped_; });
    return stopped_ ? nullptr : &pieces_[filled_ % pieces_.size()];
  }
  void send() {
    const std::lock_guard lock(mutex_);
    ++filled_;
    changed_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }

  // -- The caller --

  // The next in order; null when there are no more.
  const Piece* receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return taken_ < filled_ || closed_; });
    return taken_ < filled_ ? &pieces_[taken_ % pieces_.size()] : nullptr;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    ++taken_;
    changed_.notify_one();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }

 private:
  std::array<Piece, 4> pieces_;  // each used by one side alone, as the counts say
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t filled_ = 0;  // guarded by mutex_, as are the others
  std::size_t taken_ = 0;
  bool closed_ = false;
  bool stopped_ = false;
};

Status decode(const std::string& path,
              const BlobHeader& header,
              std::string_view blob,
              std::vector<Op>* ops) {
  Status status = decode_ops(blob, header, ops);
  return status.ok()
             ? status
             : Status(status.code(),
                      path + ": blob " + std::to_string(header.sequence) + ": " + status.detail());
}

Status fill(const std::string& path,
            const std::function<Status(const BlobVisitor&)>& read,
            Pipe& pipe) noexcept {
  try {
    return read([&](const BlobHeader& header, std::string_view blob) {
      Piece* const piece = pipe.claim();
      if (piece == nullptr) {
        return Status(Code::kStopped);
      }
      piece->header = header;
      piece->blob.assign(blob);
      Status status = decode(path, header, piece->blob, &piece->ops);
      if (status.ok()) {
        pipe.send();
      }
      return status;
    });
  } catch (const std::exception& error) {
    return Status(Code::kResource, path + ": " + error.what());
  }
}

Status read_here(const std::string& path,
                 const std::function<Status(const BlobVisitor&)>& read,
                 const OpsVisitor& visit) {
  std::vector<Op> ops;
  return read([&](const BlobHeader& header, std::string_view blob) {
    Status status = decode(path, header, blob, &ops);
    return status.ok() ? visit(header, blob.size(), ops) : status;
  });
}

}  // namespace

Status read_decoded(const std::string& path,
                    const std::function<Status(const BlobVisitor&)>& read,
                    const OpsVisitor& visit,
                    bool ahead) {
  if (!ahead) {
    return read_here(path, read, visit);
  }
  Pipe pipe;
  Status filled;
  std::thread reader;
  try {
    reader = std::thread([&] {
      filled = fill(path, read, pipe);
      pipe.close();
    });
  } catch (const std::system_error&) {
    return read_here(path, read, visit);  // No thread to be had: slower, not worse.
  }
  Status visited;
  while (const Piece* const piece = pipe.receive()) {
    visited = visit(piece->header, piece->blob.size(), piece->ops);
    if (!visited.ok()) {
      pipe.stop();
      break;
    }
    pipe.release();
  }
  reader.join();
  return visited.ok() ? filled : visited;
}

}  // namespace countwheel::wal
