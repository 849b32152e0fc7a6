#include <countwheel/wal.h>
