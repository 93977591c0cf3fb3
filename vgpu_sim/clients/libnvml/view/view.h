/* The GPUs of the node that this process may see: gpud's reports, joined, and cached for a short
 * time. */
#ifndef TSR_VIEW_H
#define TSR_VIEW_H

#include <stdbool.h>

#include "view/handles.h"
#include "nvml_types.h"
#include "tessera_abi.h"

/* Maximum age of a view, by the data that the caller needs. */
enum tsr_age {
  TSR_FACTS,   /* properties that never change while the object exists */
  TSR_SAMPLED, /* also values that hardware samples: 100 ms */
  TSR_NOW,
};


struct tsr_view {
  bool node; /* the reports are from the management socket: all objects, and changes are allowed */
  uint32_t driver_version;
  char driver_release[32];
  uint32_t gpu_count, instance_count, process_count, profile_count, xid_count;
  tessera_gpu_record gpus[TESSERA_MAX_GPUS]; /* by index on the node */
  tessera_instance_record *instances; /* by GPU, start, compute; `gpu` is an index of `gpus` */
  tessera_process_record *processes;         /* `instance` is an index of `instances` */
  tessera_profile_record *profiles;
  tessera_xid_record *xids; /* `gpu` and `instance` are indices of the arrays above */
};

/* Lock the view and return it; tsr_view_done unlocks it. If gpud does not reply: NULL with the
 * reason in `why`, and the view is not locked. */
const struct tsr_view *tsr_view(enum tsr_age age, nvmlReturn_t *why);
void tsr_view_done(void);

/* Read the first view; waits for a gpud that is restarting. */
nvmlReturn_t tsr_view_open(void);
void tsr_view_forget(void);

/* Request a change; its result is in `report`. The next view is read from gpud again. */
nvmlReturn_t tsr_view_change(const tessera_management_request *request,
                             tessera_management_report *report);

/* A copy of the objects that a device handle names. With `is_mig`, `instance` is the device and
 * `gpu` its parent. `instance_index` is -1 for a divided GPU, or if no part of it is held. */
struct tsr_device {
  bool is_mig, node;
  uint32_t gpu_index; /* in the view */
  int instance_index; /* of the MIG device, or of the instance that comprises the whole GPU */
  tessera_gpu_record gpu;
  tessera_instance_record instance;
};

/* Copy the objects of a handle. INVALID_ARGUMENT if the handle names no GPU or MIG device that
 * this process may see; GPU_IS_LOST for a GPU that it could see before. */
nvmlReturn_t tsr_device(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device);

/* The same with the view locked. */
nvmlReturn_t tsr_device_in(const struct tsr_view *view, nvmlDevice_t handle,
                           struct tsr_device *device);

/* Return the index of the instance that a handle of `kind` names; for a GPU instance, of its
 * first compute instance; -1: none. */
int tsr_instance_in(const struct tsr_view *view, const void *handle, enum tsr_handle_kind kind);

/* Handles of the view's objects. NULL: no room. */
nvmlDevice_t tsr_gpu_handle(const tessera_gpu_record *gpu);
nvmlDevice_t tsr_mig_handle(const tessera_instance_record *instance);

void *tsr_compute_handle(const tessera_instance_record *instance);
void *tsr_gpu_instance_handle(const struct tsr_view *view,
                              const tessera_instance_record *instance);

/* Whether two compute instances belong to one GPU instance. */
static inline bool tsr_are_beside(const tessera_instance_record *one,
                                  const tessera_instance_record *other) {
  return one->gpu == other->gpu && one->gpu_instance_id == other->gpu_instance_id;
}

/* Whether an instance is the first of its GPU instance, so that the GPU instance is counted
 * once. */
bool tsr_is_first_beside(const struct tsr_view *view, uint32_t index);

/* Return the compute slices of the compute instance; the field `compute_slices` is for the whole
 * GPU instance. */
uint32_t tsr_compute_slices(const tessera_instance_record *instance);

static inline bool tsr_is_mig_device(const tessera_instance_record *instance) {
  return !instance->whole && instance->compute_id != TESSERA_NO_RECORD;
}

#endif
