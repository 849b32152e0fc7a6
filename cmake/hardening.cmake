# Flags that turn memory errors into aborts. They cost nothing measurable on the data path and are
# what distributions build with. Off below a sanitizer (the presets say so): it does more, and
# fortified calls would hide accesses from it.

include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

add_library(countwheel_hardening INTERFACE)
if(COUNTWHEEL_HARDENING)
  target_compile_options(countwheel_hardening INTERFACE
    # Checked memcpy and friends; needs the optimiser, hence not in Debug.
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>
    -fstack-protector-strong       # Canaries where a frame holds an array.
    -fstack-clash-protection       # A large frame cannot jump over the guard page.
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection>)  # Indirect branch targets.
  target_link_options(countwheel_hardening INTERFACE
    -Wl,-z,relro -Wl,-z,now        # The relocation table is read-only before main.
    -Wl,-z,noexecstack)
endif()
