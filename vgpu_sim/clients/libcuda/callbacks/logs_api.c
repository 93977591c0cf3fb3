/* cuLogs...: the driver's messages for the program. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "api.h"
#include "callbacks/log_lines.h"

CUresult tsr_cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags) {
  if (!iterator_out || flags) return CUDA_ERROR_INVALID_VALUE;
  *iterator_out = tsr_log_next();
  return CUDA_SUCCESS;
}

static CUresult read_lines(CUlogIterator *iterator, char *buffer, size_t *size) {
  CUlogIterator next;
  bool none_fits;
  *size = tsr_log_read(iterator ? *iterator : 0, buffer, *size, &next, &none_fits);
  if (none_fits) return CUDA_ERROR_INVALID_VALUE;
  if (iterator) *iterator = next;
  return CUDA_SUCCESS;
}

CUresult tsr_cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
                                unsigned int flags) {
  return buffer && size && !flags ? read_lines(iterator, buffer, size) : CUDA_ERROR_INVALID_VALUE;
}

/* A file that exists is extended, so that a program can append to it after each failed call. */
CUresult tsr_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags) {
  if (!pathToFile || flags) return CUDA_ERROR_INVALID_VALUE;
  const int file = open(pathToFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  char buffer[TSR_LOG_BYTES + 64]; /* and the line that messages are missing */
  CUlogIterator next = iterator ? *iterator : 0;
  size_t bytes = sizeof buffer;
  CUresult result = read_lines(&next, buffer, &bytes);
  if (bytes && write(file, buffer, bytes) != (ssize_t)bytes) result = CUDA_ERROR_OPERATING_SYSTEM;
  if (result == CUDA_SUCCESS && iterator) *iterator = next;
  close(file);
  return result;
}

CUresult tsr_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                                    CUlogsCallbackHandle *callback_out) {
  if (!callbackFunc) return CUDA_ERROR_INVALID_VALUE;
  return tsr_log_listen(callbackFunc, userData, callback_out) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return tsr_log_ignore(callback) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
