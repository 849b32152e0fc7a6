#include "dispatcher.h"

#include <algorithm>
#include <exception>

#include <countwheel/assert.h>

namespace countwheel::detail {
namespace {

constexpr std::size_t kGroupMax = 64;
constexpr std::size_t kNoType = 0;
// Handlers are claimed in groups while they are known to be quick: the tasks of a claim wait for
// each other, and behind one that blocks they would wait for ever.
constexpr std::int64_t kQuickNs = 50'000;
constexpr std::uint32_t kQuickClaims = 16;  // in a row
constexpr std::size_t kQuickMax = 8;        // in a claim

}  // namespace

thread_local Worker* Worker::current = nullptr;
thread_local std::span<const TaskId> Worker::current_ids;

Dispatcher::Dispatcher(DispatchParts parts, Durability durability, FailurePolicy on_failure)
    : parts_(std::move(parts)), durability_(durability), on_failure_(on_failure) {}

bool Dispatcher::in_handler() noexcept {
  return !Worker::current_ids.empty();
}

// Ids are unique within an engine only.
bool Dispatcher::in_handler_of(TaskId id) const noexcept {
  const auto ids = Worker::current_ids;
  return std::find(ids.begin(), ids.end(), id) != ids.end() && Worker::current != nullptr &&
         Worker::current->owner == this;
}

void Dispatcher::hand_over(std::span<const std::pair<std::uint16_t, DueEntry>> entries) {
  TaskType* last = nullptr;
  for (const auto& [number, entry] : entries) {
    TaskType* type = last != nullptr && last->number == number ? last : parts_.types.at(number);
    if (type != last && last != nullptr) {
      last->ring.publish();
    }
    last = type;
    const bool ready = type->ready.load(std::memory_order_acquire);
    if (!ready || !type->overflow.empty() || !admit(type, entry)) {
      type->overflow.push_back(entry);
      type->overflow_count.store(type->overflow.size());
    }
  }
  if (last != nullptr) {
    last->ring.publish();
  }
}

// False when there is no room for it.
bool Dispatcher::admit(TaskType* type, const DueEntry& entry) {
  if (type->policy.misfire.kind == MisfirePolicy::Kind::kSpread &&
      missed(parts_.table.node(entry.index))) {
    type->missed.push_back(entry);
    type->spread_count.store(type->missed.size());
    return true;
  }
  return type->ring.stage(entry);
}

// Moves those into the ring whose turn it is; answers when the next one's is, on the boot clock.
std::int64_t Dispatcher::spread(TaskType* type) {
  const std::int64_t now_ns = parts_.now_on(ClockKind::kBoot);
  if (type->missed_since_ns == 0) {
    type->missed_since_ns = now_ns;
  }
  const double step_ns = static_cast<double>(type->policy.misfire.span.count()) /
                         static_cast<double>(std::max<std::uint64_t>(type->missed_count, 1));
  std::int64_t turn_ns = kNever;
  while (!type->missed.empty()) {
    const double after_ns = step_ns * static_cast<double>(type->missed_started);
    turn_ns = type->missed_since_ns + static_cast<std::int64_t>(after_ns);
    if (turn_ns > now_ns || !type->ring.stage(type->missed.front())) {
      break;
    }
    ++type->missed_started;
    type->missed.pop_front();
    turn_ns = kNever;
  }
  type->spread_count.store(type->missed.size());
  type->ring.publish();
  return turn_ns;
}

std::size_t Dispatcher::ensure_workers() noexcept {
  if (closed_.load()) {
    return 0;
  }
  std::size_t waiting = 0;
  std::size_t behind = 0;
  std::int64_t next_allowed_ns = kNever;
  const std::size_t types = parts_.types.count();
  for (std::size_t i = 0; i < types; ++i) {
    TaskType* type = parts_.types.at(static_cast<std::uint16_t>(i));
    if (type == nullptr || !type->ready.load(std::memory_order_acquire)) {
      continue;
    }
    if (!type->overflow.empty()) {
      type->refill_asked.store(false);
      while (!type->overflow.empty() && admit(type, type->overflow.front())) {
        type->overflow.pop_front();
      }
      type->overflow_count.store(type->overflow.size());
      type->ring.publish();
    }
    if (!type->missed.empty()) {
      next_allowed_ns = std::min(next_allowed_ns, spread(type));
    }
    const std::int64_t at_ns = may_start_at(*type);
    if (at_ns <= now_for(*type)) {
      waiting += type->ring.size();
      behind += type->overflow.size();
    } else if (type->ring.size() != 0) {
      next_allowed_ns = std::min(next_allowed_ns, at_ns);
    }
  }
  next_allowed_ns_.store(next_allowed_ns, std::memory_order_relaxed);
  const std::size_t wanted = std::min(waiting, executor_->concurrency());
  for (std::size_t i = 0; i < wanted && enter(); ++i) {
    inside_.fetch_add(1);
    executor_->post({&Dispatcher::run_work, this});
  }
  return waiting + behind;
}

// One more piece of work, if the executor can run one more.
bool Dispatcher::enter() noexcept {
  const std::size_t limit = executor_->concurrency();
  std::size_t active = active_.load();
  while (active < limit) {
    if (active_.compare_exchange_weak(active, active + 1)) {
      return true;
    }
  }
  return false;
}

std::int64_t Dispatcher::may_start_at(const TaskType& type) const noexcept {
  if (paused_.load() || !type.open()) {
    return kNever;
  }
  return type.rate.limited() ? type.rate.next() : 0;
}

// Only a rate asks what time it is.
std::int64_t Dispatcher::now_for(const TaskType& type) const noexcept {
  return type.rate.limited() ? parts_.now_on(ClockKind::kBoot) : 0;
}

bool Dispatcher::any_waiting() const noexcept {
  const std::size_t types = parts_.types.count();
  for (std::size_t i = 0; i < types; ++i) {
    const TaskType* type = parts_.types.at(static_cast<std::uint16_t>(i));
    if (type != nullptr && type->ring.size() != 0 && may_start_at(*type) <= now_for(*type)) {
      return true;
    }
  }
  return false;
}

void Dispatcher::drain() noexcept {
  Worker worker;
  worker.owner = this;
  Worker* const outer = std::exchange(Worker::current, &worker);
  std::size_t next_type = kNoType;
  for (;;) {
    while (!closed_.load() && drain_once(worker, &next_type)) {
    }
    active_.fetch_sub(1);
    // What was published since the last look has nobody but us, if no new work was posted.
    // Without cells the tick thread posts again when there are some.
    if (closed_.load() || worker.cells.empty() || !may_start() || !any_waiting() || !enter()) {
      break;
    }
  }
  places_.give_all(worker.places);
  if (worker.met_rate) {
    parts_.wake_ticker();  // It comes back when the rate allows.
  }
  // Another worker may have found no cell while these lay here.
  if (!worker.cells.empty() && parts_.cells.give(worker.cells)) {
    parts_.wake_ticker();
  }
  Worker::current = outer;
  leave();
}

// One claim of the next type that has something; false when none has.
bool Dispatcher::drain_once(Worker& worker, std::size_t* next_type) {
  const std::size_t types = parts_.types.count();
  for (std::size_t i = 0; i < types; ++i) {
    const std::size_t number = (*next_type + i) % types;
    TaskType* type = parts_.types.at(static_cast<std::uint16_t>(number));
    if (type == nullptr || type->ring.size() == 0 || paused_.load() || !type->open()) {
      continue;
    }
    if (!may_start() || !take_cells(worker)) {
      return false;
    }
    // What may hang holds back nobody else.
    const bool quick =
        !type->singly() && type->quick_claims.load(std::memory_order_relaxed) >= kQuickClaims;
    if (!type->enter(now_for(*type))) {
      worker.met_rate |= type->rate.limited();
      continue;
    }
    const std::size_t most = std::max(type->batch(), quick ? kQuickMax : 1);
    // One half is left to those that come; a batch handler wants all there is for it.
    const std::size_t shares = executor_->concurrency() * (type->batch() > 1 ? 1 : 2);
    const std::size_t count =
        type->ring.claim(std::min(most, worker.cells.size()), shares, worker.claim.data());
    if (count == 0) {
      type->not_started();
      type->leave();
      continue;
    }
    *next_type = number + 1;
    if (type->overflow_count.load() != 0 && type->ring.size() < DueRing::kCapacity / 2 &&
        !type->refill_asked.exchange(true)) {
      parts_.wake_ticker();
    }
    run_claim(worker, *type, std::span(worker.claim).first(count));
    return true;
  }
  return false;
}

void Dispatcher::run_claim(Worker& worker, TaskType& type, std::span<const DueEntry> claim) {
  const std::int64_t began_ns = parts_.now_on(ClockKind::kBoot);
  worker.begun.clear();
  // Counted once for all of a claim: more than one are quick.
  running_.fetch_add(claim.size());
  started_.fetch_add(claim.size(), std::memory_order_relaxed);
  std::size_t not_running = 0;
  std::size_t not_started = 0;
  for (const DueEntry& entry : claim) {
    InFlight* begun = nullptr;
    const bool running = begin(worker, type, entry, &begun);
    not_running += running ? 0 : 1;
    not_started += begun == nullptr ? 1 : 0;
    if (!running) {
      type.not_started();
      type.leave();
    } else if (begun != nullptr && type.batch_handler) {
      worker.begun.push_back(begun);
    } else if (begun != nullptr) {
      run_handler(worker, type, begun);
    }
  }
  if (!worker.begun.empty()) {
    run_batch(worker, type);
  }
  flush(worker);
  if (not_started != 0) {
    running_.fetch_sub(not_running);
    started_.fetch_sub(not_started, std::memory_order_relaxed);
  }
  const auto count = static_cast<std::int64_t>(claim.size());
  if (parts_.now_on(ClockKind::kBoot) - began_ns > count * kQuickNs) {
    type.quick_claims.store(0, std::memory_order_relaxed);
  } else if (type.quick_claims.load(std::memory_order_relaxed) < kQuickClaims) {
    type.quick_claims.fetch_add(1, std::memory_order_relaxed);
  }
}

bool Dispatcher::may_start() const noexcept {
  return on_failure_ == FailurePolicy::kKeepFiring || parts_.commit.health() != Health::kFailed;
}

// Cells for one claim. When all are in flight the log is behind: commit, then look again.
bool Dispatcher::take_cells(Worker& worker) {
  // No more than its share: what lies unused with one worker another may be waiting for.
  const std::size_t workers = std::max<std::size_t>(executor_->concurrency(), 1);
  const std::size_t share = std::max<std::size_t>(parts_.cells.limit() / workers, 1);
  if (worker.cells.size() >= std::min(kQuickMax, share)) {
    return true;
  }
  std::array<std::uint32_t, DueRing::kClaimMax> cells;
  const std::size_t wanted = std::min(cells.size(), share);
  std::size_t count = parts_.cells.take(wanted - worker.cells.size(), cells.data());
  if (count == 0 && worker.cells.empty()) {
    parts_.commit.commit_once();
    count = parts_.cells.take(wanted, cells.data());
  }
  worker.cells.insert(worker.cells.end(), cells.begin(), cells.begin() + count);
  return !worker.cells.empty();
}

Status Dispatcher::answer(InFlight* in_flight, Outcome outcome) {
  Lease* const lease = in_flight->lease;
  const bool stale = lease != nullptr && !leases_.finish(lease);
  if (stale || refusing_.load()) {
    delete lease;
    end_running();
    return stale ? Status(Code::kStaleLease, "the lease was over") : Status(Code::kStopped);
  }
  // Whatever it answered, the handler has ended: what comes now is no crash of its.
  parts_.cells.cell(in_flight->cell)
      .mark.store(mark_of(in_flight->run, in_flight->attempt, true), std::memory_order_release);
  Worker* worker = in_flight->worker;
  if (worker == Worker::current && worker != nullptr && worker->call == in_flight->call) {
    worker->finished.emplace_back(in_flight, std::move(outcome));
    if (worker->finished.size() >= kGroupMax) {
      flush(*worker);
    }
    return {};
  }
  const std::pair<InFlight*, Outcome> ended(in_flight, std::move(outcome));
  end_attempts({&ended, 1});
  if (lease != nullptr) {
    delete lease;
  } else {
    PlacePool::Cache place = {in_flight};
    places_.give_all(place);
  }
  parts_.commit.nudge();
  end_running();
  return {};
}

void Dispatcher::drop(InFlight* in_flight) noexcept {
  Worker* const worker = Worker::current;
  if (worker != nullptr && in_flight->worker == worker && in_flight->call == worker->call &&
      std::uncaught_exceptions() > in_flight->exceptions) {
    worker->thrown.push_back(in_flight);
    return;
  }
  (void)answer(in_flight, {Outcome::Kind::kFailed, 0, "dropped without an answer", {}});
}

Status Dispatcher::keep(InFlight** in_flight, const Deadline& until) {
  const Result<ResolvedDeadline> resolved = parts_.resolve(until);
  if (!resolved.ok()) {
    return resolved.status();
  }
  Outcome outcome;
  outcome.kind = Outcome::Kind::kKept;
  outcome.until = DueTime{resolved->clock, resolved->on_clock(), resolved->wall_ns};
  return answer(std::exchange(*in_flight, nullptr), std::move(outcome));
}

void Dispatcher::flush(Worker& worker) {
  if (worker.finished.empty()) {
    return;
  }
  end_attempts(worker.finished);
  for (const auto& [in_flight, outcome] : worker.finished) {
    if (Lease* const lease = in_flight->lease; lease != nullptr) {
      delete lease;
    } else {
      places_.give(worker.places, in_flight);
    }
  }
  running_.fetch_sub(worker.finished.size());
  worker.finished.clear();
  parts_.commit.nudge();
}

}  // namespace countwheel::detail
