/* Softmax of each row of 1024 columns, a group of 256 per row: maximum and sum by trees in local
 * memory, and 2^x for e^x. */
__kernel void softmax(__global const float *in, __global float *out) {
  __local float part[256];
  int t = get_local_id(0), first = get_group_id(0) * 1024 + t;
  float x[4], most = -3.4e38f, sum = 0.0f;
  for (int j = 0; j < 4; j++) {
    x[j] = in[first + 256 * j] * 1.44269504f;
    most = fmax(most, x[j]);
  }
  part[t] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = fmax(part[t], part[t + s]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  most = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < 4; j++) {
    x[j] = native_exp2(x[j] - most);
    sum += x[j];
  }
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float scale = 1.0f / part[0];
  for (int j = 0; j < 4; j++) out[first + 256 * j] = x[j] * scale;
}
