#include "testing/truth.h"

#include <algorithm>
#include <cstring>

#include "testing/workload.h"

namespace countwheel::testing {
namespace {

struct Found {
  TaskInfo info;
  int count = 0;
};

std::map<std::uint32_t, Found> find_all(const Engine& engine) {
  std::map<std::uint32_t, Found> found;
  TaskId after{};
  for (;;) {
    std::vector<TaskInfo> page = engine.list(after, 1000);
    if (page.empty()) {
      return found;
    }
    after = page.back().id;
    for (TaskInfo& info : page) {
      Found& entry = found[number_of(info.payload)];
      ++entry.count;
      entry.info = std::move(info);
    }
  }
}

// What is wrong with one task; empty when nothing is.
std::string compare(const TruthState& before,
                    const TruthState& after,
                    std::uint8_t level,
                    const Found* found) {
  const int count = found == nullptr ? 0 : found->count;
  if (count > 1) {
    return "is in the table twice";
  }
  if (!after.begun && count > 0) {
    return "was never scheduled";
  }
  if (count > 0 && before.cancel_level >= level) {
    return "was cancelled and is back";
  }
  if (count > 0 && before.done_durable) {
    return "was done and is back";
  }
  if (count > 0 && before.gone) {
    return "was gone after an earlier crash and is back";
  }
  const bool ended = after.cancel_begun || after.finished || before.gone;
  if (count == 0 && before.schedule_level >= level && !ended) {
    return "was acknowledged and is lost";
  }
  if (count == 1 && found->info.state == State::kDead) {
    return "is a dead letter: " + found->info.last_error;
  }
  const bool moved = after.moving_to_ns != 0 || after.deadline_ns != before.deadline_ns ||
                     after.failures > 0 || before.deadline_level < level;
  if (count == 1 && before.schedule_level >= level && !moved &&
      found->info.deadline.time_since_epoch().count() != before.deadline_ns) {
    return "has another deadline";
  }
  return {};
}

}  // namespace

void Truth::violation(const std::string& text) {
  if (violation_count++ >= 16) {
    return;
  }
  const std::size_t used = ::strnlen(violations.data(), violations.size());
  const std::size_t room = violations.size() - used - 1;
  const std::string line = text + "\n";
  std::memcpy(violations.data() + used, line.data(), std::min(room, line.size()));
}

std::vector<TruthState> snapshot(const Truth& truth) {
  std::vector<TruthState> states(truth.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const TruthTask& task = truth.tasks[i];
    // The promises first and the beginnings last would let a call slip between: whoever needs that
    // order takes two snapshots.
    states[i] = {task.deadline_ns,
                 task.moving_to_ns,
                 task.starts,
                 task.failures,
                 task.schedule_level,
                 task.deadline_level,
                 task.cancel_level,
                 task.begun != 0,
                 task.cancel_begun != 0,
                 task.finished != 0,
                 task.done_durable != 0,
                 task.gone != 0};
  }
  return states;
}

void verify_and_resync(const Engine& engine,
                       const std::vector<TruthState>& before,
                       const std::vector<TruthState>& after,
                       std::uint8_t level,
                       Truth* truth) {
  const std::map<std::uint32_t, Found> all = find_all(engine);
  const std::string where = "recovery " + std::to_string(truth->recoveries.load()) + ": task ";
  for (std::uint32_t number = 0; number < after.size(); ++number) {
    const TruthState begun = number < before.size() ? before[number] : TruthState{};
    const auto it = all.find(number);
    const Found* found = it == all.end() ? nullptr : &it->second;
    if (const std::string wrong = compare(begun, after[number], level, found); !wrong.empty()) {
      truth->violation(where + std::to_string(number) + " " + wrong);
    }
    TruthTask& task = truth->tasks[number];
    if (after[number].starts > 0 && !begun.done_durable) {
      ++task.allowed_repeats;
    }
    task.moving_to_ns = 0;
    task.cancel_begun = 0;
    task.cancel_level = 0;
    task.finished = 0;
    task.done_durable = begun.done_durable;
    if (found == nullptr) {
      task.gone = 1;
      continue;
    }
    task.id = found->info.id.value;
    task.deadline_ns = found->info.deadline.time_since_epoch().count();
    task.schedule_level = level_of(Durability::kDisk);
    task.deadline_level = level_of(Durability::kDisk);
  }
  if (!all.empty() && all.rbegin()->first >= after.size()) {
    truth->violation(where + std::to_string(all.rbegin()->first) + " was never scheduled");
  }
}

void verify_at_rest(Truth* truth) {
  for (std::uint32_t number = 0; number < truth->size(); ++number) {
    const TruthTask& task = truth->tasks[number];
    const std::string name = "at rest: task " + std::to_string(number);
    const bool owed = task.schedule_level > 0 && task.cancel_begun == 0 && task.gone == 0;
    if (owed && task.starts == 0) {
      truth->violation(name + " never started");
    }
    if (task.starts > 1 + task.failures + task.allowed_repeats) {
      truth->violation(name + " started " + std::to_string(task.starts) + " times, allowed 1 + " +
                       std::to_string(task.failures) + " failures + " +
                       std::to_string(task.allowed_repeats) + " crashes");
    }
  }
}

}  // namespace countwheel::testing
