#include "json.h"

#include <cstdio>
#include <string>

#include <boost/json/src.hpp>

namespace countwheel::tools {

void print_json(const boost::json::value& value) {
  std::string line = boost::json::serialize(value);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace countwheel::tools
