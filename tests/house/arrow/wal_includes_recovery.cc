#include <countwheel/recovery.h>
