/* Variables of the device that programs name by their host variable. */
#include "api.h"
#include "code/registry.h"
#include "memory/copy.h"
#include "memory/symbol.h"

cudaError_t tsr_cudaGetSymbolAddress(void **devPtr, const void *symbol) {
  size_t bytes;
  return devPtr ? tsr_symbol(symbol, devPtr, &bytes) : cudaErrorInvalidValue;
}

cudaError_t tsr_cudaGetSymbolSize(size_t *size, const void *symbol) {
  void *address;
  return size ? tsr_symbol(symbol, &address, size) : cudaErrorInvalidValue;
}

cudaError_t tsr_symbol_range(const void *symbol, size_t count, size_t offset, void **address) {
  size_t bytes;
  const cudaError_t result = tsr_symbol(symbol, address, &bytes);
  if (result != cudaSuccess) return result;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  *address = (char *)*address + offset;
  return cudaSuccess;
}

static cudaError_t to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
                             int kind, enum tsr_order order, cudaStream_t stream) {
  void *address;
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost)
    return cudaErrorInvalidMemcpyDirection;
  const cudaError_t result = tsr_symbol_range(symbol, count, offset, &address);
  return result == cudaSuccess ? tsr_copy(address, src, count, kind, order, stream) : result;
}

static cudaError_t from_symbol(void *dst, const void *symbol, size_t count, size_t offset, int kind,
                               enum tsr_order order, cudaStream_t stream) {
  void *address;
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice)
    return cudaErrorInvalidMemcpyDirection;
  const cudaError_t result = tsr_symbol_range(symbol, count, offset, &address);
  return result == cudaSuccess ? tsr_copy(dst, address, count, kind, order, stream) : result;
}

cudaError_t tsr_cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                                   int kind) {
  return to_symbol(symbol, src, count, offset, kind, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemcpyToSymbol_ptds(const void *symbol, const void *src, size_t count,
                                        size_t offset, int kind) {
  return to_symbol(symbol, src, count, offset, kind, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                        size_t offset, int kind, cudaStream_t stream) {
  return to_symbol(symbol, src, count, offset, kind, TSR_NO_WAIT, stream);
}

cudaError_t tsr_cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                     int kind) {
  return from_symbol(dst, symbol, count, offset, kind, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol, size_t count,
                                          size_t offset, int kind) {
  return from_symbol(dst, symbol, count, offset, kind, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count,
                                          size_t offset, int kind, cudaStream_t stream) {
  return from_symbol(dst, symbol, count, offset, kind, TSR_NO_WAIT, stream);
}
