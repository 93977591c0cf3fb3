/* Philox 4x32-10: four random words per work-item, from a counter and a key. Groups of 256. */
__kernel void philox(__global uint4 *out, uint seed_low, uint seed_high) {
  uint i = get_group_id(0) * get_local_size(0) + get_local_id(0);
  uint x = i, y = 0, z = 0, w = 0, k = seed_low, l = seed_high;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    uint high = mul_hi(0xD2511F53u, x), low = 0xD2511F53u * x;
    uint high2 = mul_hi(0xCD9E8D57u, z), low2 = 0xCD9E8D57u * z;
    x = high2 ^ y ^ k;
    y = low2;
    z = high ^ w ^ l;
    w = low;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  out[i] = (uint4)(x, y, z, w);
}
