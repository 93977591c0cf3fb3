/* Token buckets of rate limits. This file does not depend on queue pairs. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/policy.h"

enum {
  LEAST_BURST_BYTES = 65536,
  BURSTS_PER_SECOND = 100, /* a burst is 10 ms at the rate, as for policies' limits */
};

struct hca_bucket hca_bucket_of(uint64_t per_second) {
  const uint64_t burst = per_second / BURSTS_PER_SECOND;
  return (struct hca_bucket){
      .per_ns = (double)per_second / 1e9,
      .burst = (double)(burst < LEAST_BURST_BYTES ? LEAST_BURST_BYTES : burst),
      .filled_ns = hca_now_ns()};
}

uint64_t hca_bucket_wait_ns(struct hca_bucket *bucket, uint64_t now_ns) {
  if (bucket->per_ns == 0) return 0;
  if (now_ns > bucket->filled_ns) {
    bucket->tokens += (double)(now_ns - bucket->filled_ns) * bucket->per_ns;
    if (bucket->tokens > bucket->burst) bucket->tokens = bucket->burst;
    bucket->filled_ns = now_ns;
  }
  return bucket->tokens >= 0 ? 0 : (uint64_t)(-bucket->tokens / bucket->per_ns) + 1;
}

uint64_t hca_flow_wait_ns(struct hca_flow *flow, uint64_t now_ns) {
  uint64_t longest_ns = 0;
  for (uint32_t i = 0; i < flow->limit_count; i++) {
    const uint64_t bytes_ns = hca_bucket_wait_ns(&flow->limits[i]->bytes, now_ns);
    const uint64_t operations_ns = hca_bucket_wait_ns(&flow->limits[i]->operations, now_ns);
    if (bytes_ns > longest_ns) longest_ns = bytes_ns;
    if (operations_ns > longest_ns) longest_ns = operations_ns;
  }
  return longest_ns;
}

void hca_flow_spend(struct hca_flow *flow, uint64_t bytes, unsigned operations) {
  for (uint32_t i = 0; i < flow->limit_count; i++) {
    flow->limits[i]->bytes.tokens -= (double)bytes;
    flow->limits[i]->operations.tokens -= operations;
  }
}
