/* The library is never initialised. Functions that return nothing cannot refuse, so they end the
 * process, as NVSHMEM's do after an error. */
#include <stdlib.h>

#include "api.h"
#include "log.h"
#include "unsupported.h"

/* The first of the transports by which kernels reach other processes; none is in use. */
__attribute__((visibility("default"))) extern int nvshmem_selected_device_transport;
int nvshmem_selected_device_transport;

/* Nothing was initialised. */
void tsr_nvshmemid_hostlib_finalize(void) {}

/* The version of the OpenSHMEM specification. */
void tsr_nvshmem_info_get_version(int *spec_major, int *spec_minor) {
  if (spec_major) *spec_major = 1;
  if (spec_minor) *spec_minor = 3;
}

nvshmemStatus_t tsr_nvshmemid_init_status(void) { return 0; /* not initialised */ }

nvshmemStatus_t tsr_nvshmemx_init_status(void) { return 0; }

/* There are no teams. */
nvshmemStatus_t tsr_nvshmem_team_n_pes(int team) {
  (void)team;
  return -1;
}

static void *refuse(const char *what, uint32_t *said) {
  tsr_unsupported(what, "NVSHMEMX_ERROR_NOT_SUPPORTED", said);
  return NULL;
}

void *tsr_nvshmem_malloc(size_t size) {
  static uint32_t said;
  (void)size;
  return refuse("nvshmem_malloc", &said);
}

void *tsr_nvshmem_ptr(const void *dest, int pe) {
  static uint32_t said;
  (void)dest, (void)pe;
  return refuse("nvshmem_ptr", &said);
}

void *tsr_nvshmemx_mc_ptr(int team, const void *ptr) {
  static uint32_t said;
  (void)team, (void)ptr;
  return refuse("nvshmemx_mc_ptr", &said);
}

/* nvshmem_malloc returned nothing that could be freed. */
void tsr_nvshmem_free(void *ptr) { (void)ptr; }

_Noreturn static void end(const char *what) {
  tsr_log("%s is not supported, and returns no status: ending the program", what);
  abort();
}

void tsr_nvshmem_barrier_all(void) { end("nvshmem_barrier_all"); }

void tsr_nvshmemx_getmem_on_stream(void *dest, const void *source, size_t bytes, int pe,
                                   cudaStream_t stream) {
  (void)dest, (void)source, (void)bytes, (void)pe, (void)stream;
  end("nvshmemx_getmem_on_stream");
}

void tsr_nvshmemx_putmem_on_stream(void *dest, const void *source, size_t bytes, int pe,
                                   cudaStream_t stream) {
  (void)dest, (void)source, (void)bytes, (void)pe, (void)stream;
  end("nvshmemx_putmem_on_stream");
}

void tsr_nvshmemx_putmem_signal_on_stream(void *dest, const void *source, size_t bytes,
                                          uint64_t *sig_addr, uint64_t sig_val, int sig_op, int pe,
                                          cudaStream_t stream) {
  (void)dest, (void)source, (void)bytes, (void)sig_addr, (void)sig_val, (void)sig_op, (void)pe,
      (void)stream;
  end("nvshmemx_putmem_signal_on_stream");
}

void tsr_nvshmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t cmp_value,
                                              cudaStream_t stream) {
  (void)sig_addr, (void)cmp, (void)cmp_value, (void)stream;
  end("nvshmemx_signal_wait_until_on_stream");
}
