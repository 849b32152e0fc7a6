# countwheel_room(<name> HEADERS <h>... SOURCES <cc>... [PUBLIC <lib>...] [PRIVATE <lib>...])
#
# One room of the house: target countwheel_<name>, alias countwheel::<name>. HEADERS are the public
# ones, named relative to include/countwheel; they are installed and each must compile alone.
# SOURCES are relative to the room and may lie beside private headers, which are included in quotes.
# A room sees the include path of the rooms it links and no other: that is the arrow.
function(countwheel_room name)
  cmake_parse_arguments(ROOM "" "" "HEADERS;SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target countwheel_${name})
  list(TRANSFORM ROOM_HEADERS PREPEND include/countwheel/)
  add_library(${target})
  add_library(countwheel::${name} ALIAS ${target})
  target_sources(${target}
    PRIVATE ${ROOM_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${ROOM_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC ${ROOM_PUBLIC}
    PRIVATE ${ROOM_PRIVATE}
      $<BUILD_INTERFACE:countwheel_warnings>
      $<BUILD_INTERFACE:countwheel_hardening>)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    INSTALL_RPATH "$ORIGIN"
    VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()
