/* The rounds, shared by the kernel and the native code. */
#ifndef __device__
#define __device__
#endif

#define ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))

__device__ static inline __attribute__((always_inline)) void sha256_of_32_bytes(
    const unsigned *message, unsigned *digest) {
  const unsigned rounds[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  const unsigned start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned w[16], s[8];
  for (int i = 0; i < 8; i++) w[i] = message[i], s[i] = start[i];
  for (int i = 8; i < 16; i++) w[i] = i == 8 ? 0x80000000u : i == 15 ? 256 : 0;
#ifdef __clang__
#pragma unroll
#else
#pragma GCC unroll 64
#endif
  for (int i = 0; i < 64; i++) {
    if (i >= 16) {
      unsigned early = w[(i + 1) & 15], late = w[(i + 14) & 15];
      w[i & 15] += (ROTATED(early, 7) ^ ROTATED(early, 18) ^ early >> 3) + w[(i + 9) & 15] +
                   (ROTATED(late, 17) ^ ROTATED(late, 19) ^ late >> 10);
    }
    unsigned e = s[4], a = s[0];
    unsigned one = s[7] + (ROTATED(e, 6) ^ ROTATED(e, 11) ^ ROTATED(e, 25)) +
                   ((e & s[5]) ^ (~e & s[6])) + rounds[i] + w[i & 15];
    unsigned two = (ROTATED(a, 2) ^ ROTATED(a, 13) ^ ROTATED(a, 22)) +
                   ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s[7] = s[6], s[6] = s[5], s[5] = e, s[4] = s[3] + one;
    s[3] = s[2], s[2] = s[1], s[1] = a, s[0] = one + two;
  }
  for (int i = 0; i < 8; i++) digest[i] = s[i] + start[i];
}
