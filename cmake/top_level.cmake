# What only the top level may decide: never applied to a project that embeds us.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type." FORCE)
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(COUNTWHEEL_CCACHE ccache)
  mark_as_advanced(COUNTWHEEL_CCACHE)
  if(COUNTWHEEL_CCACHE)
    # The sloppiness is what ccache asks for to cache what uses a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros ${COUNTWHEEL_CCACHE})
  endif()
endif()

set(COUNTWHEEL_TEST_OPTIONS "" CACHE STRING
  "Compile options of the tests alone: speed where the tests need none.")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
# Rooms find each other inside the build tree and, once installed, relative to themselves.
file(RELATIVE_PATH COUNTWHEEL_BIN_TO_LIB
  /${CMAKE_INSTALL_BINDIR}/ /${CMAKE_INSTALL_LIBDIR})
