/* What cuFile says of itself. No file can be registered, so that there is none to read or write. */
#include "api.h"
#include "unsupported.h"

CUfileError_t tsr_cuFileGetVersion(int *version) {
  if (!version) return CU_FILE_INVALID_VALUE;
  *version = TSR_CUFILE_VERSION;
  return CU_FILE_SUCCESS;
}

/* The driver was not opened. */
long tsr_cuFileUseCount(void) { return 0; }

void tsr_cuFileHandleDeregister(CUfileHandle_t fh) { (void)fh; }

/* These return a number of bytes, or a negative status. */
static ssize_t refuse(const char *what, uint32_t *said) {
  tsr_unsupported(what, "CU_FILE_PLATFORM_NOT_SUPPORTED", said);
  return -CU_FILE_PLATFORM_NOT_SUPPORTED;
}

ssize_t tsr_cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset,
                       off_t bufPtr_offset) {
  static uint32_t said;
  (void)fh, (void)bufPtr_base, (void)size, (void)file_offset, (void)bufPtr_offset;
  return refuse("cuFileRead", &said);
}

ssize_t tsr_cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset,
                        off_t bufPtr_offset) {
  static uint32_t said;
  (void)fh, (void)bufPtr_base, (void)size, (void)file_offset, (void)bufPtr_offset;
  return refuse("cuFileWrite", &said);
}

ssize_t tsr_cuFileReadv(CUfileHandle_t fh, const void *iov, size_t iovcnt, off_t file_offset,
                        unsigned flags) {
  static uint32_t said;
  (void)fh, (void)iov, (void)iovcnt, (void)file_offset, (void)flags;
  return refuse("cuFileReadv", &said);
}

ssize_t tsr_cuFileWritev(CUfileHandle_t fh, const void *iov, size_t iovcnt, off_t file_offset,
                         unsigned flags) {
  static uint32_t said;
  (void)fh, (void)iov, (void)iovcnt, (void)file_offset, (void)flags;
  return refuse("cuFileWritev", &said);
}
