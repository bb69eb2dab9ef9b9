// Transposes: rows are contiguous in x, columns in y. Follows box.cl.

#define LINE(i) const E8 r##i = GET8(x + i * column_x)
// Pairs of two rows, then columns c and c + 4 of four rows, then columns of eight.
#define LOW(a, b) ((E8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5))
#define HIGH(a, b) ((E8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7))
#define LOW2(a, b) ((E8)(a.s01, b.s01, a.s45, b.s45))
#define HIGH2(a, b) ((E8)(a.s23, b.s23, a.s67, b.s67))
#define TURN(i, a, b)                                                                             \
  PUT8((E8)(a.lo, b.lo), y + i * step_y);                                                         \
  PUT8((E8)(a.hi, b.hi), y + (i + 4) * step_y)

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
  const E8 a0 = LOW(r0, r1), a1 = HIGH(r0, r1), b0 = LOW(r2, r3), b1 = HIGH(r2, r3);
  const E8 c0 = LOW(r4, r5), c1 = HIGH(r4, r5), d0 = LOW(r6, r7), d1 = HIGH(r6, r7);
  TURN(0, LOW2(a0, b0), LOW2(c0, d0));
  TURN(1, HIGH2(a0, b0), HIGH2(c0, d0));
  TURN(2, LOW2(a1, b1), LOW2(c1, d1));
  TURN(3, HIGH2(a1, b1), HIGH2(c1, d1));
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

#define WEAVE2                                                                                    \
  LINE(0);                                                                                        \
  LINE(1);                                                                                        \
  PUT8((E8)(r0.s0, r1.s0, r0.s1, r1.s1, r0.s2, r1.s2, r0.s3, r1.s3), y);                          \
  PUT8((E8)(r0.s4, r1.s4, r0.s5, r1.s5, r0.s6, r1.s6, r0.s7, r1.s7), y + 8)

#define WEAVE3                                                                                    \
  LINE(0);                                                                                        \
  LINE(1);                                                                                        \
  LINE(2);                                                                                        \
  PUT8((E8)(r0.s0, r1.s0, r2.s0, r0.s1, r1.s1, r2.s1, r0.s2, r1.s2), y);                          \
  PUT8((E8)(r2.s2, r0.s3, r1.s3, r2.s3, r0.s4, r1.s4, r2.s4, r0.s5), y + 8);                      \
  PUT8((E8)(r1.s5, r2.s5, r0.s6, r1.s6, r2.s6, r0.s7, r1.s7, r2.s7), y + 16)

#define WEAVE4                                                                                    \
  LINE(0);                                                                                        \
  LINE(1);                                                                                        \
  LINE(2);                                                                                        \
  LINE(3);                                                                                        \
  const E8 a0 = LOW(r0, r1), a1 = HIGH(r0, r1), b0 = LOW(r2, r3), b1 = HIGH(r2, r3);              \
  PUT8((E8)(a0.s01, b0.s01, a0.s23, b0.s23), y);                                                  \
  PUT8((E8)(a1.s01, b1.s01, a1.s23, b1.s23), y + 8);                                              \
  PUT8((E8)(a0.s45, b0.s45, a0.s67, b0.s67), y + 16);                                             \
  PUT8((E8)(a1.s45, b1.s45, a1.s67, b1.s67), y + 24)

// COLUMNS columns, dense in y.
#define INTERLEAVE(COLUMNS)                                                                       \
  static void weave##COLUMNS(__global const E *restrict x, __global E *restrict y,                \
                             int column_x) {                                                      \
    WEAVE##COLUMNS;                                                                               \
  }                                                                                               \
  __kernel void interleave##COLUMNS(BOX_PARAMETERS) {                                             \
    BOX_BLOCK(get_global_id(0));                                                                  \
    EACH_PLANE {                                                                                  \
      __global const E *from = x + (p * plane_x + top);                                           \
      __global E *to = y + (p * plane_y + top * COLUMNS);                                         \
      const int n = bottom - top;                                                                 \
      int i = 0;                                                                                  \
      for (; i + 8 <= n; i += 8) weave##COLUMNS(from + i, to + i * COLUMNS, column_x);            \
      transpose_edge(from + i, to + i * COLUMNS, column_x, COLUMNS, n - i, COLUMNS);              \
    }                                                                                             \
  }

INTERLEAVE(2)
INTERLEAVE(3)
INTERLEAVE(4)
