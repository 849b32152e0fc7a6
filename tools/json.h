// Boost.JSON for the tools, and how they print it. The library itself is compiled in json.cc.
#ifndef COUNTWHEEL_TOOLS_JSON_H_
#define COUNTWHEEL_TOOLS_JSON_H_

#include <boost/json.hpp>

namespace countwheel::tools {

// One line on standard output.
void print_json(const boost::json::value& value);

}  // namespace countwheel::tools

#endif  // COUNTWHEEL_TOOLS_JSON_H_
