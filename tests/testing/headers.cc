// Nothing but a place to compile the headers that all tests share; see tests/CMakeLists.txt.
