/* Count of each byte value: in local memory first, or directly in global memory. */
__kernel void histogram_shared(__global const uchar *in, __global int *bins, int n) {
  __local int mine[256];
  int t = get_local_id(0);
  mine[t] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_group_id(0) * get_local_size(0) + t; i < n; i += get_num_groups(0) * get_local_size(0))
    atomic_add(&mine[in[i]], 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[t], mine[t]);
}

__kernel void histogram_global(__global const uchar *in, __global int *bins, int n) {
  int i = get_group_id(0) * get_local_size(0) + get_local_id(0);
  if (i < n) atomic_add(&bins[in[i]], 1);
}
