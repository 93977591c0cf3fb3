/* What this process may see of the node's GPUs: gpud's answers, joined and kept for a moment. */
#ifndef TSR_VIEW_H
#define TSR_VIEW_H

#include <stdbool.h>

#include "view/handles.h"
#include "nvml_types.h"
#include "tessera_abi.h"

/* How old an answer may be. */
enum tsr_age {
  TSR_FACTS,   /* what never changes while the object exists */
  TSR_SAMPLED, /* what hardware samples, too: 100 ms */
  TSR_NOW,
};


struct tsr_view {
  bool node; /* the management socket: everything, and it may be changed */
  uint32_t driver_version;
  char driver_release[32];
  uint32_t gpu_count, instance_count, process_count, profile_count, xid_count;
  tessera_gpu_record gpus[TESSERA_MAX_GPUS]; /* by index on the node */
  tessera_instance_record *instances; /* by GPU, start, compute; `gpu` is an index of `gpus` */
  tessera_process_record *processes;         /* `instance` is an index of `instances` */
  tessera_profile_record *profiles;
  tessera_xid_record *xids; /* `gpu`, `instance` are indices here */
};

/* Waits for its turn and returns the view, for `done` to give the turn to others; NULL, with the
 * reason and without a turn, where gpud does not answer. */
const struct tsr_view *tsr_view(enum tsr_age age, nvmlReturn_t *why);
void tsr_view_done(void);

/* Asks for the first view, and waits for a gpud that is being restarted. */
nvmlReturn_t tsr_view_open(void);
void tsr_view_forget(void);

/* Asks for a change; what came of it is in `report`. The next view is a new one. */
nvmlReturn_t tsr_view_change(const tessera_management_request *request,
                             tessera_management_report *report);

/* What a device handle names, copied. `is_mig`: `instance` is the device, `gpu` its parent.
 * `instance_index` is -1 for a GPU that is divided, or of which nothing is held. */
struct tsr_device {
  bool is_mig, node;
  uint32_t gpu_index; /* in the view */
  int instance_index; /* of the MIG device, or of the instance that is the whole GPU */
  tessera_gpu_record gpu;
  tessera_instance_record instance;
};

/* INVALID_ARGUMENT for what is no handle of a GPU or a MIG device that this process sees;
 * GPU_IS_LOST for a GPU that it saw. */
nvmlReturn_t tsr_device(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device);

/* The same within a turn. */
nvmlReturn_t tsr_device_in(const struct tsr_view *view, nvmlDevice_t handle,
                           struct tsr_device *device);

/* The index of the instance that a handle of `kind` names, of a GPU instance its first; -1: none. */
int tsr_instance_in(const struct tsr_view *view, const void *handle, enum tsr_handle_kind kind);

/* Handles of what the view shows. NULL: no room. */
nvmlDevice_t tsr_gpu_handle(const tessera_gpu_record *gpu);
nvmlDevice_t tsr_mig_handle(const tessera_instance_record *instance);

void *tsr_compute_handle(const tessera_instance_record *instance);
void *tsr_gpu_instance_handle(const struct tsr_view *view,
                              const tessera_instance_record *instance);

/* Whether two are compute instances of one GPU instance. */
static inline bool tsr_are_beside(const tessera_instance_record *one,
                                  const tessera_instance_record *other) {
  return one->gpu == other->gpu && one->gpu_instance_id == other->gpu_instance_id;
}

/* Whether an instance is the first of its GPU instance, which is to be counted once. */
bool tsr_is_first_beside(const struct tsr_view *view, uint32_t index);

/* The compute slices of its compute instance; `compute_slices` are the GPU instance's. */
uint32_t tsr_compute_slices(const tessera_instance_record *instance);

static inline bool tsr_is_mig_device(const tessera_instance_record *instance) {
  return !instance->whole && instance->compute_id != TESSERA_NO_RECORD;
}

#endif
