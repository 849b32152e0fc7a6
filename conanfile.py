"""Conan 2 recipe. Best effort: continuous integration builds with Debian's packages."""

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class Countwheel(ConanFile):
    name = "countwheel"
    version = "0.1.0"
    description = "Durable in-process timers: a timing wheel with a write-ahead log"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": False, "rocksdb/*:shared": True}
    exports_sources = "CMakeLists.txt", "cmake/*", "engine/*", "wal/*", "recovery/*", "LICENSE"

    def requirements(self):
        self.requires("boost/1.81.0")
        self.requires("rocksdb/[>=7.8]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCH", "TOOLS"):
            toolchain.cache_variables[f"COUNTWHEEL_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # Our own package file knows the rooms and their order.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/countwheel"]
