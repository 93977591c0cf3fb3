/* Handles of cuDNN, and what it says of itself. */
#include "api.h"
#include "objects.h"
#include "texts.h"

enum { HANDLE = 1 };

struct tsr_dnn {
  cudaStream_t stream;
};

extern int cuInit(unsigned int flags);

cudnnStatus_t tsr_cudnnCreate(cudnnHandle_t *handle) {
  if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (cuInit(0) != 0) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = tsr_object_new(HANDLE, sizeof(struct tsr_dnn));
  return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t tsr_cudnnDestroy(cudnnHandle_t handle) {
  return tsr_object_free(handle, HANDLE) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t tsr_cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  struct tsr_dnn *dnn = tsr_object_find(handle, HANDLE);
  if (!dnn) return CUDNN_STATUS_BAD_PARAM;
  dnn->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t tsr_cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  const struct tsr_dnn *dnn = tsr_object_find(handle, HANDLE);
  if (!dnn) return CUDNN_STATUS_BAD_PARAM;
  if (!stream) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *stream = dnn->stream;
  return CUDNN_STATUS_SUCCESS;
}

size_t tsr_cudnnGetVersion(void) {
  const struct tsr_version own = TSR_DNN_VERSION;
  return (size_t)(own.major * 10000 + own.minor * 100 + own.patch);
}

size_t tsr_cudnnGetCudartVersion(void) { return TSR_CUDART_VERSION; }

cudnnStatus_t tsr_cudnnGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_DNN_VERSION, type) < 0) return CUDNN_STATUS_BAD_PARAM;
  *value = tsr_version_part(TSR_DNN_VERSION, type);
  return CUDNN_STATUS_SUCCESS;
}

const char *tsr_cudnnGetErrorString(int status) {
  return tsr_status_name(status, "CUDNN_UNKNOWN_STATUS");
}

/* The reasons of refusals are on stderr. */
void tsr_cudnnGetLastErrorString(char *message, size_t max_size) {
  if (message && max_size) message[0] = 0;
}
