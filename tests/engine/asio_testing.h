// What the tests of countwheel/asio.h share: an engine on threads, whose journal the test holds or
// fails, and a handler that remembers.
#ifndef COUNTWHEEL_TESTS_ENGINE_ASIO_TESTING_H_
#define COUNTWHEEL_TESTS_ENGINE_ASIO_TESTING_H_

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <countwheel/asio.h>

#include "testing/fault_journal.h"
#include "testing/threaded_engine.h"

namespace countwheel::testing {

inline TaskSpec in_an_hour(std::string_view key = {}) {
  return {.type = "test", .deadline = after(std::chrono::hours(1)), .key = key};
}

// A completion as a test looks at it.
template <class Value>
struct Heard {
  int count = 0;
  boost::system::error_code error;
  Value value{};

  auto handler() {
    return [this](boost::system::error_code heard, Value with) {
      ++count;
      error = heard;
      value = std::move(with);
    };
  }
};

class AsioOperations : public ::testing::Test {
 protected:
  AsioOperations() : host_({}, std::make_unique<FaultJournal>(&faults_)) { host_.run(); }

  Engine& engine() { return *host_.engine; }
  // An operation whose record the journal holds back.
  void hold() {
    faults_.hold();
    const Result<Submitted> first = engine().submit(in_an_hour());
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(eventually([&] { return faults_.waiting(); }));
  }

  Faults faults_;
  ThreadedEngine host_;
  boost::asio::io_context io_;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_ENGINE_ASIO_TESTING_H_
