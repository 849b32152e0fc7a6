// The control of this experiment: with the arrow, an include compiles.
#include <countwheel/engine.h>
