/* Start and end of the runtime. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"
#include "base/platform.h"

/* Create a memfd whose size is sealed; its first `populated` bytes are allocated. */
static int create_memory(const char *name, uint64_t bytes, uint64_t populated) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  int status = ftruncate(fd, (off_t)bytes);
  if (status == 0) status = fallocate(fd, 0, 0, (off_t)populated);
  if (status == 0) status = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  if (status == 0) return fd;
  status = -errno;
  close(fd);
  return status;
}

static int map_shared(int fd, uint64_t bytes, int protection, void **where) {
  *where = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
  return *where == MAP_FAILED ? -errno : 0;
}

int tessera_worker_create_shared(int *client_area_fd, int *worker_page_fd) {
  uint64_t populated = offsetof(tessera_client_area, rings) + 2 * sizeof(tessera_ring);
  int area = create_memory("tessera-client-area", sizeof(tessera_client_area), populated);
  if (area < 0) return area;
  int page = create_memory("tessera-worker-page", sizeof(tessera_worker_page),
                           sizeof(tessera_worker_page));
  if (page < 0) {
    close(area);
    return page;
  }
  void *mapped_area, *mapped_page;
  int status = map_shared(area, sizeof(tessera_client_area), PROT_READ, &mapped_area);
  if (status == 0)
    status = map_shared(page, sizeof(tessera_worker_page), PROT_READ | PROT_WRITE, &mapped_page);
  /* From here on no process can map the page for writing, even if the descriptor is passed to
   * it. */
  if (status == 0 && fcntl(page, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    status = -errno;
  if (status != 0) {
    close(area);
    close(page);
    return status;
  }
  tw.client = mapped_area;
  tw.page = mapped_page;
  tw.page->magic = TESSERA_WORKER_PAGE_MAGIC;
  tw.page->version = TESSERA_ABI_VERSION;
  tw.page->cpu = -1;
  *client_area_fd = area;
  *worker_page_fd = page;
  return 0;
}

/* A kernel's fault signals must reach the faulting thread; all others go to the owner thread. */
static void block_ordinary_signals(sigset_t *before) {
  sigset_t blocked;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSEGV);
  sigdelset(&blocked, SIGBUS);
  sigdelset(&blocked, SIGILL);
  sigdelset(&blocked, SIGFPE);
  pthread_sigmask(SIG_SETMASK, &blocked, before);
}

int tessera_worker_start(const tessera_worker_config *config) {
  if (tw.page == NULL || config->threads == 0 || config->callback == NULL ||
      tw.aperture_base == 0 || tw.aperture_base != config->aperture_base)
    return -EINVAL;
  tw.config = *config;
  tw.page->observing = config->observer != NULL;
  tw.page->features = TESSERA_FEATURE_VALUES | TESSERA_FEATURE_LISTS |
                      TESSERA_FEATURE_PARTITIONS | TESSERA_FEATURE_PRIORITIES |
                      TESSERA_FEATURE_EVENTS | TESSERA_FEATURE_CLUSTERS |
                      TESSERA_FEATURE_GRAPHS;
  tw_timer_begin();
  int status = tw_fault_install();
  if (status != 0) return status;
  __atomic_store_n(&tw.stopping, 0, __ATOMIC_RELEASE);
  sigset_t before;
  block_ordinary_signals(&before);
  status = tw_pool_start(config->threads - 1, tw_cta_end_thread);
  if (status == 0) {
    status = tw_scheduler_start();
    if (status != 0) tw_pool_stop();
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

void tessera_worker_stop(void) {
  __atomic_store_n(&tw.stopping, 1, __ATOMIC_SEQ_CST);
  tw_runners_stop();
  tw_pool_stop();
}
