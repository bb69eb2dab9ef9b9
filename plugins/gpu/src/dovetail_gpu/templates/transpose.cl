// Transposes: rows are contiguous in x, columns in y. Follows copy.cl.

#define LINE(i) const E8 r##i = GET8(x + i * column_x)
#define TURN(i)                                                                                   \
  PUT8((E8)(r0.s##i, r1.s##i, r2.s##i, r3.s##i, r4.s##i, r5.s##i, r6.s##i, r7.s##i), y + i * step_y)

static void transpose8(__global const E *restrict x, __global E *restrict y, int column_x,
                       int step_y) {
  LINE(0);
  LINE(1);
  LINE(2);
  LINE(3);
  LINE(4);
  LINE(5);
  LINE(6);
  LINE(7);
  TURN(0);
  TURN(1);
  TURN(2);
  TURN(3);
  TURN(4);
  TURN(5);
  TURN(6);
  TURN(7);
}

static void transpose_edge(__global const E *restrict x, __global E *restrict y, int column_x,
                           int step_y, int rows, int columns) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) y[i * step_y + j] = x[i + j * column_x];
}

// In tiles of 8 by 8 in registers.
__kernel void transpose_tiles(BOX_PARAMETERS) {
  BOX_BLOCK(get_global_id(0));
  EACH_PLANE for (int j = left; j < right; j += 8) for (int i = top; i < bottom; i += 8) {
    __global const E *from = x + (p * plane_x + i + j * column_x);
    __global E *to = y + (p * plane_y + i * step_y + j);
    if (i + 8 <= bottom && j + 8 <= right)
      transpose8(from, to, column_x, step_y);
    else
      transpose_edge(from, to, column_x, step_y, min(8, bottom - i), min(8, right - j));
  }
}

// COLUMNS columns, dense in y: the compiler makes vectors of steps that it knows.
#define INTERLEAVE(COLUMNS)                                                                       \
  __kernel void interleave##COLUMNS(BOX_PARAMETERS) {                                             \
    BOX_BLOCK(get_global_id(0));                                                                  \
    EACH_PLANE {                                                                                  \
      __global const E *from = x + (p * plane_x + top);                                           \
      __global E *to = y + (p * plane_y + top * COLUMNS);                                         \
      const int n = bottom - top;                                                                 \
      for (int i = 0; i < n; i++)                                                                 \
        for (int j = 0; j < COLUMNS; j++) to[i * COLUMNS + j] = from[i + j * column_x];           \
    }                                                                                             \
  }

INTERLEAVE(2)
INTERLEAVE(3)
INTERLEAVE(4)

#define SIDE 32
#define ITEMS 256

// Through local memory, in tiles of SIDE by SIDE: `tall` and `wide` are SIDE, `thick` is 1, and a
// group of ITEMS work items copies a block.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void transpose_local(BOX_PARAMETERS) {
  __local E tile[SIDE][SIDE + 1];  // the column more spreads a column over the banks
  BOX_BLOCK(get_group_id(0));
  const int lane = get_local_id(0) % SIDE, first = get_local_id(0) / SIDE;
  x += front * plane_x + top + left * column_x;
  y += front * plane_y + top * step_y + left;
  for (int j = first; j < right - left; j += ITEMS / SIDE)
    if (top + lane < bottom) tile[j][lane] = x[lane + j * column_x];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = first; i < bottom - top; i += ITEMS / SIDE)
    if (left + lane < right) y[i * step_y + lane] = tile[lane][i];
}
