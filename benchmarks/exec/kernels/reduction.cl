/* One sum per group of 512 elements, by a tree in local memory. Groups of 256; launched again on its
 * own results until one is left. */
__kernel void reduction(__global const float *in, __global float *out, int n) {
  __local float part[256];
  int t = get_local_id(0);
  int i = get_group_id(0) * 512 + t;
  float sum = 0.0f;
  if (i < n) sum = in[i];
  if (i + 256 < n) sum += in[i + 256];
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[get_group_id(0)] = part[0];
}
