/* State of the process that files of several rooms use: below all of them. */
#include "process.h"

_Atomic uint32_t tsr_process_state = TSR_LOADED;
pthread_mutex_t tsr_module_lock = PTHREAD_MUTEX_INITIALIZER;
