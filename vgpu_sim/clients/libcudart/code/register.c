/* What compilers generate calls of, for each object with device code: registration before main, and
 * launch configurations. Nothing is loaded here. */
#include <string.h>

#include "api.h"
#include "code/registry.h"
#include "errors.h"
#include "log.h"
#include "state.h"

/* What compilers pass instead of the fat binary itself. */
struct wrapper {
  uint32_t magic;
  uint32_t version;
  const void *data;
  const void *more;
};
enum { WRAPPER_MAGIC = 0x466243b1, LINKED_VERSION = 2 };

void **tsr___cudaRegisterFatBinary(void *fatCubin) {
  const struct wrapper *wrapper = fatCubin;
  if (!wrapper || wrapper->magic != WRAPPER_MAGIC || !wrapper->data) {
    tsr_log("__cudaRegisterFatBinary: not a fat binary; its kernels cannot be launched");
    return NULL;
  }
  /* libcuda links the objects' fat binaries that this one names. */
  return (void **)tsr_image_add(wrapper->version == LINKED_VERSION ? fatCubin : wrapper->data);
}

void tsr___cudaRegisterFatBinaryEnd(void **fatCubinHandle) { (void)fatCubinHandle; }

void tsr___cudaUnregisterFatBinary(void **fatCubinHandle) {
  tsr_image_remove((struct tsr_image *)fatCubinHandle);
}

/* Compilers call it before the first access of the host to a managed variable, until it returns
 * nonzero. */
char tsr___cudaInitModule(void **fatCubinHandle) {
  if (!fatCubinHandle) return 0;
  cudaError_t result = tsr_use_context();
  if (result == cudaSuccess) result = tsr_image_store_managed((struct tsr_image *)fatCubinHandle);
  if (result != cudaSuccess)
    tsr_log("__cudaInitModule: managed variables have no memory (CUDA error %d)", (int)result);
  return result == cudaSuccess;
}

void tsr___cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                                const char *deviceName, int thread_limit, void *tid, void *bid,
                                void *bDim, void *gDim, int *wSize) {
  (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
  if (fatCubinHandle && hostFun && deviceName)
    tsr_kernel_add((struct tsr_image *)fatCubinHandle, hostFun, deviceName);
}

void tsr___cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                           const char *deviceName, int ext, size_t size, int constant, int global) {
  (void)deviceAddress, (void)ext, (void)constant, (void)global;
  if (fatCubinHandle && hostVar && deviceName)
    tsr_variable_add((struct tsr_image *)fatCubinHandle, hostVar, deviceName, size, false);
}

void tsr___cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                  char *deviceAddress, const char *deviceName, int ext, size_t size,
                                  int constant, int global) {
  (void)deviceAddress, (void)ext, (void)constant, (void)global;
  if (fatCubinHandle && hostVarPtrAddress && deviceName)
    tsr_variable_add((struct tsr_image *)fatCubinHandle, hostVarPtrAddress, deviceName, size, true);
}

/* Configurations between <<<...>>> and the call of the kernel's stub; nested if the stub's arguments
 * launch kernels. */
enum { MAX_NESTED = 32 };
static __thread struct {
  struct dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
} configurations[MAX_NESTED];
static __thread unsigned configured;

unsigned int tsr___cudaPushCallConfiguration(struct dim3 gridDim, struct dim3 blockDim,
                                             size_t sharedMem, cudaStream_t stream) {
  if (configured == MAX_NESTED) { /* the caller skips the launch, and has no other way to report it */
    tsr_record((cudaError_t)701); /* launch out of resources */
    return 1;
  }
  configurations[configured].grid = gridDim;
  configurations[configured].block = blockDim;
  configurations[configured].shared_bytes = sharedMem;
  configurations[configured++].stream = stream;
  return 0;
}

cudaError_t tsr___cudaPopCallConfiguration(struct dim3 *gridDim, struct dim3 *blockDim,
                                           size_t *sharedMem, void *stream) {
  if (configured == 0) return cudaErrorMissingConfiguration;
  configured--;
  if (gridDim) *gridDim = configurations[configured].grid;
  if (blockDim) *blockDim = configurations[configured].block;
  if (sharedMem) *sharedMem = configurations[configured].shared_bytes;
  if (stream) memcpy(stream, &configurations[configured].stream, sizeof(cudaStream_t));
  return cudaSuccess;
}
