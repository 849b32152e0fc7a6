// One key, several opinions: reject, replace, keep, and moving a task only if nobody else has.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;
using countwheel::KeyPolicy;

int main() {
  auto engine = std::move(*countwheel::Engine::create({.drive = countwheel::Drive::kHost}));
  (void)engine->start();
  const auto schedule = [&](KeyPolicy policy, std::chrono::seconds delay) {
    return engine->submit({.type = "session.timeout",
                           .deadline = countwheel::after(delay),
                           .key = "client-7",
                           .key_policy = policy});
  };
  const auto first = schedule(KeyPolicy::kReject, 30s);
  const auto again = schedule(KeyPolicy::kReject, 60s);
  std::printf("reject: %s\n", again.code() == countwheel::Code::kExists ? "exists" : "?");
  const auto kept = schedule(KeyPolicy::kKeep, 60s);
  std::printf("keep: the same task %d, kept %d\n", kept->id == first->id, kept->kept);
  const auto moved = schedule(KeyPolicy::kReplace, 60s);
  std::printf("replace: the same task %d, replaced %d\n", moved->id == first->id, moved->replaced);

  const countwheel::WallTime seen = engine->find("client-7")->deadline;
  const auto winner = engine->reschedule_if("client-7", seen, countwheel::after(90s));
  const auto loser = engine->reschedule_if("client-7", seen, countwheel::after(120s));
  std::printf("first to move it: %s\n", winner.status.text().c_str());
  std::printf("second: %s\n", loser.status.text().c_str());
}
