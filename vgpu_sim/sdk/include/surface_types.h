/* For programs that name this header: these types are in driver_types.h. */
#pragma once
#include "driver_types.h"
