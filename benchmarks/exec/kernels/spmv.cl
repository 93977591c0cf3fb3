/* y = A * x for a sparse A in compressed rows, one work-item per row. Groups of 256. */
__kernel void spmv(__global const int *start, __global const int *column, __global const float *value,
                   __global const float *x, __global float *y, int rows) {
  int row = get_group_id(0) * get_local_size(0) + get_local_id(0);
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = start[row]; i < start[row + 1]; i++) sum += value[i] * x[column[i]];
  y[row] = sum;
}
