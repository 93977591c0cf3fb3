/* Counters of copied and filled bytes. The worker counts here, the client in its own area. The
 * client's numbers are not verified, because they affect only its own metrics. */
#define _GNU_SOURCE
#include "base/internal.h"
#include "base/platform.h"

/* Below this size, reading the clock would distort the measurement. */
enum { TIMED_BYTES = 64 << 10 };

static _Alignas(64) struct {
  uint64_t host_to_device, device_to_host, device_to_device, set, ns; /* atomic */
} counted;

static void add(uint64_t *counter, uint64_t amount) {
  __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_RELAXED); }

static bool is_host(uint64_t address) {
  const uint64_t within = (address - tw.aperture_base) % TESSERA_GPU_WINDOW_BYTES;
  return within - TESSERA_HOST_OFFSET < TESSERA_HOST_BYTES;
}

void tw_count_copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  const bool to_host = is_host(destination), from_host = is_host(source);
  if (to_host && from_host) return;
  add(to_host     ? &counted.device_to_host
      : from_host ? &counted.host_to_device
                  : &counted.device_to_device,
      bytes);
}

void tw_count_set(uint64_t bytes) { add(&counted.set, bytes); }

uint64_t tw_copy_begins(uint64_t bytes) { return bytes >= TIMED_BYTES ? tw_now_ns() : 0; }

void tw_copy_ends(uint64_t since_ns) {
  if (since_ns != 0) add(&counted.ns, tw_now_ns() - since_ns);
}

void tw_copies_read(tessera_worker_stats *out) {
  const tessera_client_area *client = tw.client;
  out->host_to_device_bytes = get(&counted.host_to_device) + get(&client->host_to_device_bytes);
  out->device_to_host_bytes = get(&counted.device_to_host) + get(&client->device_to_host_bytes);
  out->device_to_device_bytes =
      get(&counted.device_to_device) + get(&client->device_to_device_bytes);
  out->set_bytes = get(&counted.set);
  out->copy_ns = get(&counted.ns) + get(&client->copy_ns);
}
