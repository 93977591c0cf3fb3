/* Copies, fills, timestamps and chunks in a real aperture. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { CHUNK = 4 << 20, ROUNDS = 400 };

static client c;
static uint8_t model[2 * CHUNK]; /* the expected contents of two adjacent chunks */

static tessera_kernel_entry choose(uint64_t kernel) {
  (void)kernel;
  return NULL;
}

static bool covers(uint64_t offset, uint64_t bytes) {
  tw_chunks_lock();
  bool covered = tw_chunks_cover_locked(tw.aperture_base + TESSERA_DEVICE_OFFSET + offset, bytes);
  tw_chunks_unlock();
  return covered;
}

static int chunk_fd(void) {
  int fd = memfd_create("chunk", 0);
  CHECK(fd >= 0 && ftruncate(fd, CHUNK) == 0);
  return fd;
}

static void copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  tessera_slot slot = client_slot(&c, 0, TESSERA_OPCODE_COPY);
  slot.body.copy = (tessera_copy_body){tw.aperture_base + TESSERA_DEVICE_OFFSET + destination,
                                       tw.aperture_base + TESSERA_DEVICE_OFFSET + source, bytes};
  client_put(&c, 0, &slot);
  memmove(model + destination, model + source, bytes);
}

static void set(uint64_t destination, uint64_t count, uint32_t pattern, uint32_t width) {
  tessera_slot slot = client_slot(&c, 0, TESSERA_OPCODE_SET);
  slot.body.set = (tessera_set_body){tw.aperture_base + TESSERA_DEVICE_OFFSET + destination, count,
                                     pattern, width};
  client_put(&c, 0, &slot);
  for (uint64_t i = 0; i < count; i++) memcpy(model + destination + i * width, &pattern, width);
}

static void timestamp(uint32_t index) {
  tessera_slot slot = client_slot(&c, 0, TESSERA_OPCODE_TIMESTAMP);
  slot.body.timestamp.index = index;
  client_put(&c, 0, &slot);
}

int main(void) {
  client_open(&c);
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  CHECK(tessera_worker_reserve(BASES[0] + 1) == -EINVAL);
  CHECK(tessera_worker_reserve(BASES[0]) == 0);
  worker_start(2, choose);
  int first = chunk_fd(), second = chunk_fd();
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET, CHUNK, first) == 0);
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET + CHUNK, CHUNK, second) == 0);
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET + CHUNK - 4096, 4096, second) == -EEXIST);
  CHECK(tessera_worker_map_chunk(TESSERA_APERTURE_BYTES, 4096, second) == -EINVAL);
  const uint8_t *a = mmap(NULL, CHUNK, PROT_READ, MAP_SHARED, first, 0);
  const uint8_t *b = mmap(NULL, CHUNK, PROT_READ, MAP_SHARED, second, 0);
  CHECK(a != MAP_FAILED && b != MAP_FAILED);

  uint32_t random = 1;
  timestamp(7);
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525 + 1013904223;
    uint64_t place = (random >> 4) % (2 * CHUNK - 70000), other = (random >> 7) % (2 * CHUNK - 70000);
    uint64_t bytes = (random >> 9) % 70000; /* often across the boundary, often overlapping */
    if (i % 8 == 0) other = place + 3;
    uint32_t width = 1u << (random >> 20) % 3;
    if (i % 3 == 0)
      set(place / width * width, bytes / width, random * 77, width);
    else
      copy(place, other, bytes);
  }
  copy(5, 5, 0);
  timestamp(8);
  CHECK(client_wait(&c, 0, c.values[0]) == 0);
  CHECK(memcmp(a, model, CHUNK) == 0 && memcmp(b, model + CHUNK, CHUNK) == 0);
  CHECK(c.page->timestamps[8] > c.page->timestamps[7] && c.page->timestamps[7] > 0);

  /* Freeing releases the pages although descriptors and mappings of them still exist. */
  CHECK(tessera_worker_unmap_chunk(TESSERA_DEVICE_OFFSET, 2 * CHUNK) == -ENOENT);
  CHECK(tessera_worker_unmap_chunk(TESSERA_DEVICE_OFFSET, CHUNK) == 0);
  for (uint32_t i = 0; i < CHUNK; i++) CHECK(a[i] == 0);
  CHECK(!covers(0, 1));
  CHECK(covers(CHUNK, CHUNK));
  CHECK(!covers(CHUNK, CHUNK + 1));
  CHECK(!covers(CHUNK, UINT64_MAX));
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET, CHUNK, first) == 0);
  tessera_worker_stop();
  printf("ok\n");
  return 0;
}
