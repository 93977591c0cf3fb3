/* base^exponent mod modulus of each element, by squaring; modulus below 2^32. Groups of 256. */
__kernel void modpow(__global const uint *base, __global uint *out, uint exponent, uint modulus) {
  int i = get_group_id(0) * get_local_size(0) + get_local_id(0);
  ulong power = base[i], result = 1;
  for (uint e = exponent; e; e >>= 1) {
    if (e & 1) result = result * power % modulus;
    power = power * power % modulus;
  }
  out[i] = result;
}
