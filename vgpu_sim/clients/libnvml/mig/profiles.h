/* Look-up of a board's profiles by NVML's or the driver's numbers. */
#ifndef TSR_PROFILES_H
#define TSR_PROFILES_H

#include "view/view.h"

/* Find the profile for a number of an enumeration (NVML_GPU_INSTANCE_PROFILE_*); NULL: none. */
const tessera_profile_record *tsr_profile_by_enum(const struct tsr_view *view, uint32_t gpu,
                                                  unsigned int number);

/* Find the profile with a driver ID, which is used to create instances. */
const tessera_profile_record *tsr_profile_by_id(const struct tsr_view *view, uint32_t gpu,
                                                unsigned int id);

/* Find the compute instance profile with that number in a GPU instance profile; NULL: none. */
const tessera_compute_profile *tsr_compute_profile(const tessera_profile_record *profile,
                                                   unsigned int number);

#endif
