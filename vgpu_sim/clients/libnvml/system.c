/* Functions without a device: versions and process names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "view/answer.h"
#include "api.h"
#include "library.h"

enum { DRIVER_VERSION = 13000 }; /* before nvmlInit, as cuDriverGetVersion reports before cuInit */

nvmlReturn_t tsr_nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  result = tsr_copy_text(version, length, view->driver_release);
  tsr_view_done();
  return result;
}

/* A branch is named by the first number of its releases. `length` is the room for the name. */
nvmlReturn_t tsr_nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *branchInfo,
                                           unsigned int length) {
  char release[sizeof branchInfo->branch], name[sizeof branchInfo->branch];
  const nvmlReturn_t result = tsr_nvmlSystemGetDriverVersion(release, sizeof release);
  if (!branchInfo) return NVML_ERROR_INVALID_ARGUMENT;
  if (branchInfo->version != NVML_STRUCT_VERSION(nvmlSystemDriverBranchInfo_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (result != NVML_SUCCESS) return result;
  snprintf(name, sizeof name, "r%.*s_00", (int)strcspn(release, "."), release);
  const unsigned int room = (unsigned int)sizeof branchInfo->branch;
  return tsr_copy_text(branchInfo->branch, length < room ? length : room, name);
}

/* As in NVIDIA's library: the CUDA version's first number, then the driver version. */
nvmlReturn_t tsr_nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
  char text[48];
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  snprintf(text, sizeof text, "%u.%s", view->driver_version / 1000, view->driver_release);
  tsr_view_done();
  return tsr_copy_text(version, length, text);
}

nvmlReturn_t tsr_nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion) {
  if (!cudaDriverVersion) return NVML_ERROR_INVALID_ARGUMENT;
  *cudaDriverVersion = DRIVER_VERSION;
  if (tsr_ready() != NVML_SUCCESS) return NVML_SUCCESS;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  *cudaDriverVersion = (int)view->driver_version;
  tsr_view_done();
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion) {
  return tsr_nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

/* Copy the first word of the command line, truncated to fit. The pids are those of this
 * process's PID namespace. */
nvmlReturn_t tsr_nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
  if (!name || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  char path[32];
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NVML_ERROR_NOT_FOUND;
  const ssize_t got = read(file, name, length - 1);
  close(file);
  if (got <= 0) return NVML_ERROR_NOT_FOUND;
  name[got] = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlUnitGetCount(unsigned int *unitCount) {
  if (!unitCount) return NVML_ERROR_INVALID_ARGUMENT;
  *unitCount = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlGetExcludedDeviceCount(unsigned int *deviceCount) {
  if (!deviceCount) return NVML_ERROR_INVALID_ARGUMENT;
  *deviceCount = 0;
  return NVML_SUCCESS;
}
