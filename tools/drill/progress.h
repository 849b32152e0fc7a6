// The progress bar on standard error.
#ifndef COUNTWHEEL_TOOLS_DRILL_PROGRESS_H_
#define COUNTWHEEL_TOOLS_DRILL_PROGRESS_H_

#include <string>
#include <string_view>

namespace countwheel::drill {

// On a terminal one line that is drawn again and again; into a file a line every quarter.
// Thread contract: one thread.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share` from 0 to 1; `text` says what is being done.
  void show(double share, std::string_view text);
  // Wipes the line, so that other output starts on an empty one.
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  int quarters_ = 0;
  std::string text_;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_PROGRESS_H_
