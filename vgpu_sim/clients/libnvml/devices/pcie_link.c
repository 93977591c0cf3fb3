/* The link between a GPU and its host: generation and width of PCIe. */
#define _GNU_SOURCE
#include "view/answer.h"
#include "api.h"

#define WIDTH 16 /* lanes, of every simulated board */

#define AMPERE 7
#define ADA 8
#define HOPPER 9
#define BLACKWELL 10

/* Boards of one architecture have one generation; a unit test compares it with the boards'
 * bandwidth. 0: unknown. */
static unsigned generation_of(uint32_t architecture) {
  switch (architecture) {
    case AMPERE:
    case ADA: return 4;
    case HOPPER:
    case BLACKWELL: return 5;
    default: return 0;
  }
}

nvmlReturn_t tsr_nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device,
                                                    unsigned int *maxLinkGen) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!maxLinkGen) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const unsigned generation = generation_of(found.gpu.architecture);
  if (!generation) return NVML_ERROR_NOT_SUPPORTED;
  *maxLinkGen = generation;
  return NVML_SUCCESS;
}

/* The simulated link never saves power, and the host limits it in nothing. */
nvmlReturn_t tsr_nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
                                                     unsigned int *currLinkGen) {
  return tsr_nvmlDeviceGetMaxPcieLinkGeneration(device, currLinkGen);
}

nvmlReturn_t tsr_nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device,
                                                       unsigned int *maxLinkGenDevice) {
  return tsr_nvmlDeviceGetMaxPcieLinkGeneration(device, maxLinkGenDevice);
}

nvmlReturn_t tsr_nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *maxLinkWidth) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!maxLinkWidth) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *maxLinkWidth = WIDTH;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth) {
  return tsr_nvmlDeviceGetMaxPcieLinkWidth(device, currLinkWidth);
}

/* The simulated link loses nothing. */
nvmlReturn_t tsr_nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!value) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *value = 0;
  return result;
}
