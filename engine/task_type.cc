#include "task_type.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace countwheel::detail {

TaskType* TypeRegistry::find(std::string_view name) const noexcept {
  const std::size_t start = std::hash<std::string_view>{}(name);
  for (std::size_t i = 0; i < kSlots; ++i) {
    TaskType* type = by_name_[(start + i) % kSlots].load(std::memory_order_acquire);
    if (type == nullptr || type->name == name) {
      return type;
    }
  }
  return nullptr;
}

Result<TaskType*> TypeRegistry::intern(std::string_view name, const Announce& announce) {
  if (TaskType* known = find(name)) {
    return known;
  }
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Status(Code::kInvalidArgument,
                  "TaskSpec::type has " + std::to_string(name.size()) + " bytes, allowed: 1 to " +
                      std::to_string(kMaxNameBytes));
  }
  const std::lock_guard lock(mutex_);
  if (TaskType* known = find(name)) {
    return known;
  }
  const std::size_t number = count();
  if (number == kMaxTypes) {
    return Status(Code::kOverloaded, std::to_string(kMaxTypes) + " task types are known");
  }
  auto type = std::make_unique<TaskType>(
      std::string(name), static_cast<std::uint16_t>(number), default_slack_us_);
  TaskType* made = type.get();
  announce(*made);
  publish(std::move(type));
  return made;
}

bool TypeRegistry::restore(std::uint16_t number, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (number >= kMaxTypes || name.empty() || name.size() > kMaxNameBytes) {
    return false;
  }
  TaskType* known = find(name);
  TaskType* numbered = at(number);
  if (known != nullptr || numbered != nullptr) {
    return known == numbered;
  }
  publish(std::make_unique<TaskType>(std::string(name), number, default_slack_us_));
  return true;
}

void TypeRegistry::publish(std::unique_ptr<TaskType> type) {
  TaskType* made = type.get();
  types_.push_back(std::move(type));
  by_number_[made->number].store(made, std::memory_order_release);
  count_.store(std::max<std::size_t>(count(), made->number + std::size_t{1}),
               std::memory_order_release);
  std::size_t slot = std::hash<std::string_view>{}(made->name);
  while (by_name_[slot % kSlots].load(std::memory_order_relaxed) != nullptr) {
    ++slot;
  }
  by_name_[slot % kSlots].store(made, std::memory_order_release);
}

}  // namespace countwheel::detail
