/* Copies in stages; see cuda_pipeline.h. */
#include "cuda_pipeline.h"
