# make install: libraries, headers, CMake package, pkg-config file and, where built, the command.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/countwheel)
install(TARGETS countwheel countwheel_engine countwheel_wal countwheel_recovery countwheel_asio
  countwheel_rocksdb
  EXPORT countwheelTargets FILE_SET HEADERS)
install(EXPORT countwheelTargets NAMESPACE countwheel:: DESTINATION ${package_dir})
configure_package_config_file(cmake/countwheelConfig.cmake.in countwheelConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# The API may change with every minor version until 1.0.
write_basic_package_version_file(countwheelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/countwheelConfig.cmake
  ${PROJECT_BINARY_DIR}/countwheelConfigVersion.cmake
  DESTINATION ${package_dir})

# The .pc file finds its prefix from where it lies: a prefix fixed at configure time would be wrong
# after `cmake --install --prefix`.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
if(BUILD_SHARED_LIBS)
  set(pc_rocksdb "Requires.private: rocksdb >= 7.8")
else()
  # Our archives carry the need for RocksDB themselves; nobody should have to say --static.
  set(pc_rocksdb "Requires: rocksdb >= 7.8")
endif()
configure_file(cmake/countwheel.pc.in countwheel.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/countwheel.pc DESTINATION ${pkgconfig_dir})

if(TARGET countwheel_tool)
  install(TARGETS countwheel_tool)
endif()
