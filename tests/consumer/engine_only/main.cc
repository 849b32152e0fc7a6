#include <cstdio>

#include <countwheel/version.h>

int main() {
  std::printf("%s\n", COUNTWHEEL_VERSION);
  return countwheel::version() == COUNTWHEEL_VERSION ? 0 : 1;
}
