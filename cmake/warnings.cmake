# Every target of ours links countwheel_warnings PRIVATE, inside the build tree only: a user is
# never made to compile with our taste. Errors are made of warnings by the presets
# (CMAKE_COMPILE_WARNING_AS_ERROR), never here, so that a newer compiler cannot break a user.

add_library(countwheel_warnings INTERFACE)
target_compile_options(countwheel_warnings INTERFACE
  -Wall -Wextra            # The reasonable base.
  -Wno-missing-field-initializers  # Designated initializers leave out on purpose.
  -Wpedantic               # Standard C++ only: no extension slips into a header.
  -Wshadow                 # Two variables of one name in one function mislead the reader.
  -Wconversion             # A deadline cut to 32 bits is an early expiry.
  -Wsign-conversion        # A negative delay must not become 584 years.
  -Wdouble-promotion       # A float computed as double by accident.
  -Wnon-virtual-dtor       # Journal and Clock are deleted through their bases.
  -Woverloaded-virtual     # An override that hides instead of overriding.
  -Wold-style-cast         # C casts hide which of four casts is meant.
  -Wcast-qual              # Casting const away from bytes of the log.
  -Wformat=2               # Format strings are checked, also when not literal.
  -Wimplicit-fallthrough   # A forgotten break in the state machine.
  -Wextra-semi             # Noise.
  -Wundef                  # A misspelt macro in #if is silently zero.
  $<$<CXX_COMPILER_ID:GNU>:
    -Wduplicated-cond      # The same condition twice in an if chain.
    -Wlogical-op           # `a && a`, `x < 0 || x > 0`: mostly typing errors.
    -Wno-restrict          # Sees overlaps in std::string at -O3 that are not there (GCC 105651).
  >)
