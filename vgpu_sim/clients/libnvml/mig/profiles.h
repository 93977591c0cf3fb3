/* A board's profiles, found by NVML's numbers or the driver's. */
#ifndef TSR_PROFILES_H
#define TSR_PROFILES_H

#include "view/view.h"

/* The profile with an enumeration's number (NVML_GPU_INSTANCE_PROFILE_*); NULL: none. */
const tessera_profile_record *tsr_profile_by_enum(const struct tsr_view *view, uint32_t gpu,
                                                  unsigned int number);

/* The profile with a driver ID, which is what is created by. */
const tessera_profile_record *tsr_profile_by_id(const struct tsr_view *view, uint32_t gpu,
                                                unsigned int id);

/* The compute instance profile of that number in a GPU instance profile; NULL: none. */
const tessera_compute_profile *tsr_compute_profile(const tessera_profile_record *profile,
                                                   unsigned int number);

#endif
