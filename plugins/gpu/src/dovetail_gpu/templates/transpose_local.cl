// Transposes through local memory: rows are contiguous in x, columns in y. Follows box.cl.

#define SIDE 32
#define ITEMS 256

// A group of ITEMS work items copies a block of SIDE by SIDE.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void transpose_local(BOX_PARAMETERS) {
  __local E tile[SIDE][SIDE + 1];  // the column more spreads a column over the banks
  BOX_BLOCK(get_group_id(0));
  const int lane = get_local_id(0) % SIDE, first = get_local_id(0) / SIDE;
  x += front * plane_x + top + left * column_x;
  y += front * plane_y + top * step_y + left;
  for (int j = first; j < right - left; j += ITEMS / SIDE)
    if (lane < bottom - top) tile[j][lane] = x[lane + j * column_x];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = first; i < bottom - top; i += ITEMS / SIDE)
    if (lane < right - left) y[i * step_y + lane] = tile[lane][i];
}
