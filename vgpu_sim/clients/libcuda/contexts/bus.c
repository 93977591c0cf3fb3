/* Devices' PCI addresses, and peer access between devices. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "base/device.h"
#include "contexts/context.h"
#include "memory/peers.h"
#include "process.h"

enum { BUS_ID_BYTES = 13 }; /* "0000:01:00.0" and its terminator */

struct place {
  unsigned domain, bus, device, function;
};

static struct place place_of(const struct tsr_device *device) {
  return (struct place){
      .domain = (unsigned)tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0),
      .bus = (unsigned)tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0),
      .device = (unsigned)tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0),
  };
}

CUresult tsr_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pciBusId || len < (int)BUS_ID_BYTES) return CUDA_ERROR_INVALID_VALUE;
  const struct place at = place_of(device);
  snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.%X", at.domain, at.bus, at.device, at.function);
  return CUDA_SUCCESS;
}

/* Parse domain:bus:device.function, domain:bus:device or bus:device.function, in hexadecimal. */
static bool read_place(const char *text, struct place *at) {
  if (strspn(text, "0123456789abcdefABCDEF:.") != strlen(text)) return false; /* blanks, signs */
  int end = 0;
  *at = (struct place){0};
  if (sscanf(text, "%8x:%2x:%2x%n", &at->domain, &at->bus, &at->device, &end) == 3) {
    if (!text[end]) return true;
    int rest = 0;
    return sscanf(text + end, ".%1x%n", &at->function, &rest) == 1 && !text[end + rest];
  }
  at->domain = 0;
  return sscanf(text, "%2x:%2x.%1x%n", &at->bus, &at->device, &at->function, &end) == 3 &&
         !text[end];
}

/* If several devices are on one GPU, the first of them is returned. */
CUresult tsr_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
  struct place wanted;
  if (!dev || !pciBusId || !read_place(pciBusId, &wanted)) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < tsr_device_count; i++) {
    const struct place at = place_of(&tsr_devices[i]);
    if (at.domain == wanted.domain && at.bus == wanted.bus && at.device == wanted.device &&
        at.function == wanted.function) {
      *dev = i;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult tsr_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
  if (!canAccessPeer) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_device *accessor = tsr_device(dev), *owner = tsr_device(peerDev);
  if (!accessor || !owner) return CUDA_ERROR_INVALID_DEVICE;
  *canAccessPeer = tsr_peers_reach(accessor, owner);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                     CUdevice dstDevice) {
  if (!value || attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_device *accessor = tsr_device(srcDevice), *owner = tsr_device(dstDevice);
  if (!accessor || !owner || accessor == owner) return CUDA_ERROR_INVALID_DEVICE;
  const bool supported = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                         attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
  *value = supported && tsr_peers_reach(accessor, owner);
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  TSR_CURRENT(context);
  if (Flags) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *owner = TSR_FIND(tsr_context, TSR_CONTEXT, peerContext);
  if (!owner || owner == context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!tsr_peers_reach(context->device, owner->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return tsr_peers_enable(context, owner);
}

CUresult tsr_cuCtxDisablePeerAccess(CUcontext peerContext) {
  TSR_CURRENT(context);
  struct tsr_context *owner = TSR_FIND(tsr_context, TSR_CONTEXT, peerContext);
  return owner ? tsr_peers_disable(context, owner) : CUDA_ERROR_INVALID_CONTEXT;
}
