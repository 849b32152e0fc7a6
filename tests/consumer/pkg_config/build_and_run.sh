#!/bin/sh
# usage: build_and_run.sh COMPILER LIBDIR OUTPUT-DIRECTORY
# A user with a plain makefile: the compiler, pkg-config and nothing else.
set -eu
compiler=$1
libdir=$2
output=$3

here=$(dirname "$0")
mkdir -p "$output"
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
# The words of pkg-config are options each: unquoted on purpose.
# shellcheck disable=SC2046
"$compiler" -std=c++20 -O1 "$here/../find_package/main.cc" -o "$output/consumer" \
  $(pkg-config --cflags --libs countwheel) -Wl,-rpath,"$libdir"
"$output/consumer"
