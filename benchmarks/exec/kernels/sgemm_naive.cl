/* C = A * B, n x n and row-major, one work-item per element of C. Groups of 32 x 8. */
__kernel void sgemm_naive(__global const float *a, __global const float *b, __global float *c, int n) {
  int column = get_group_id(0) * get_local_size(0) + get_local_id(0);
  int row = get_group_id(1) * get_local_size(1) + get_local_id(1);
  if (row >= n || column >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
