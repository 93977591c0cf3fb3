/* Devices of the process and of the thread. */
#include "api.h"
#include "errors.h"
#include "state.h"

/* Without a device, the count is 0 although the call fails. */
cudaError_t tsr_cudaGetDeviceCount(int *count) {
  if (!count) return cudaErrorInvalidValue;
  const cudaError_t result = tsr_use_driver();
  *count = result == cudaSuccess ? tsr_device_count() : 0;
  return result;
}

cudaError_t tsr_cudaGetDevice(int *device) {
  if (!device) return cudaErrorInvalidValue;
  *device = tsr_device();
  return cudaSuccess;
}

cudaError_t tsr_cudaSetDevice(int device) { return tsr_set_device(device); }

static cudaError_t set_flags(int device, unsigned int flags) {
  if (flags & ~(unsigned)cudaDeviceMask) return cudaErrorInvalidValue;
  /* Mapped pinned memory is always possible; the driver sets this flag itself. */
  return cuDevicePrimaryCtxSetFlags_v2(device, flags & ~(unsigned)cudaDeviceMapHost);
}

cudaError_t tsr_cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  if (device < 0 || device >= tsr_device_count()) return cudaErrorInvalidDevice;
  if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid) return cudaErrorInvalidValue;
  if (flags & cudaInitDeviceFlagsAreValid) {
    const cudaError_t result = set_flags(device, deviceFlags);
    if (result != cudaSuccess) return result;
  }
  CUcontext context;
  return tsr_primary(device, &context);
}

cudaError_t tsr_cudaSetDeviceFlags(unsigned int flags) { return set_flags(tsr_device(), flags); }

cudaError_t tsr_cudaGetDeviceFlags(unsigned int *flags) {
  int active;
  if (!flags) return cudaErrorInvalidValue;
  const int result = cuDevicePrimaryCtxGetState(tsr_device(), flags, &active);
  if (result == cudaSuccess) *flags |= cudaDeviceMapHost;
  return result;
}

/* The list matters only to a thread without device: it then takes the first one. */
cudaError_t tsr_cudaSetValidDevices(int *device_arr, int len) {
  if (len < 0 || (len && !device_arr)) return cudaErrorInvalidValue;
  for (int i = 0; i < len; i++)
    if (device_arr[i] < 0 || device_arr[i] >= tsr_device_count()) return cudaErrorInvalidDevice;
  return len ? tsr_set_device(device_arr[0]) : cudaSuccess;
}

cudaError_t tsr_cudaDeviceReset(void) {
  const cudaError_t result = tsr_reset_device(tsr_device());
  if (result == cudaSuccess) tsr_forget_errors();
  return result;
}

#if TSR_CUDART < 13
cudaError_t tsr_cudaThreadExit(void) { return tsr_cudaDeviceReset(); }

/* Both convert a double for devices without double precision, of which there are none. */
cudaError_t tsr_cudaSetDoubleForDevice(double *d) { return d ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t tsr_cudaSetDoubleForHost(double *d) { return d ? cudaSuccess : cudaErrorInvalidValue; }
#endif

/* The primary context of the other device exists from now on. */
cudaError_t tsr_cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  /* No device is a peer of itself; the driver's error for that is one of contexts. */
  if (peerDevice == tsr_device()) return cudaErrorInvalidDevice;
  CUcontext peer;
  const cudaError_t result = tsr_primary(peerDevice, &peer);
  return result == cudaSuccess ? cuCtxEnablePeerAccess(peer, flags) : result;
}

cudaError_t tsr_cudaDeviceDisablePeerAccess(int peerDevice) {
  CUcontext peer;
  const cudaError_t result = tsr_primary(peerDevice, &peer);
  return result == cudaSuccess ? cuCtxDisablePeerAccess(peer) : result;
}
