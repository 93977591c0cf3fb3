#include "launching/launch_attributes.h"

#include <string.h>

#include "unsupported.h"

enum kind { UNKNOWN, PERMISSION, DEMAND };

/* Attributes that only permit something do not change results: docs/cuda-support.md lists them. */
static const struct {
  const char *name;
  enum kind kind;
} ATTRIBUTES[TSR_LAUNCH_ATTRIBUTES] = {
#define ROW(name, kind) [CU_LAUNCH_ATTRIBUTE_##name] = {"CU_LAUNCH_ATTRIBUTE_" #name, kind}
    ROW(IGNORE, PERMISSION),
    ROW(ACCESS_POLICY_WINDOW, PERMISSION),
    ROW(SYNCHRONIZATION_POLICY, PERMISSION),
    ROW(CLUSTER_SCHEDULING_POLICY_PREFERENCE, PERMISSION),
    ROW(PROGRAMMATIC_STREAM_SERIALIZATION, PERMISSION),
    ROW(PROGRAMMATIC_EVENT, DEMAND),
    ROW(PRIORITY, PERMISSION),
    ROW(MEM_SYNC_DOMAIN_MAP, PERMISSION),
    ROW(MEM_SYNC_DOMAIN, PERMISSION),
    ROW(PREFERRED_CLUSTER_DIMENSION, PERMISSION),
    ROW(LAUNCH_COMPLETION_EVENT, DEMAND),
    ROW(DEVICE_UPDATABLE_KERNEL_NODE, DEMAND),
    ROW(PREFERRED_SHARED_MEMORY_CARVEOUT, PERMISSION),
    ROW(NVLINK_UTIL_CENTRIC_SCHEDULING, PERMISSION),
#undef ROW
};

static CUresult refuse(int id) {
  static uint32_t said[TSR_LAUNCH_ATTRIBUTES + 1];
  const bool known = id >= 0 && id < TSR_LAUNCH_ATTRIBUTES && ATTRIBUTES[id].name;
  tsr_unsupported(known ? ATTRIBUTES[id].name : "an unknown launch attribute of cuLaunchKernelEx",
                  "CUDA_ERROR_NOT_SUPPORTED", &said[known ? id : TSR_LAUNCH_ATTRIBUTES]);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult tsr_launch_attributes(const CUlaunchConfig *config, bool *cooperative,
                               uint32_t cluster[3]) {
  *cooperative = false;
  memset(cluster, 0, 3 * sizeof *cluster);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    const int id = attribute->id;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      int wanted;
      memcpy(&wanted, attribute->value, sizeof wanted);
      *cooperative = wanted != 0;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      memcpy(cluster, attribute->value, 3 * sizeof *cluster);
      if (cluster[0] == 0 || cluster[1] == 0 || cluster[2] == 0)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    } else if (id < 0 || id >= TSR_LAUNCH_ATTRIBUTES || ATTRIBUTES[id].kind == UNKNOWN) {
      return refuse(id);
    } else if (ATTRIBUTES[id].kind == DEMAND) {
      return refuse(id);
    }
  }
  return CUDA_SUCCESS;
}
