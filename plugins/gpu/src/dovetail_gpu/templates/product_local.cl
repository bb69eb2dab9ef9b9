// Sums of products with tiles in local memory, for devices of many small cores; see product_head.cl.
//
// A work group of SIDE times SIDE items computes SIDE * ROWS positions times SIDE * COLUMNS columns. It
// copies SIDE channels of both operands to local memory at a time. Neighbours along axis 0 read and
// write neighbouring elements.

#define SIDE 16
#define BLOCK (SIDE * COLUMNS)

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void product(PRODUCT_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(W, w);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  __local float of_x[SIDE][SIDE * ROWS + 1];
  __local float of_w[SIDE][BLOCK];
  const int across = get_local_id(0), down = get_local_id(1);
  const int first = get_group_id(0) * SIDE * ROWS + down;
  const int part = get_group_id(1) / blocks;
  const int column = (get_group_id(1) - part * blocks) * BLOCK + across;
  x += part * channels;
  int at_w = 0;
#if BATCHED
  TENSOR_READ(int, x_at);
  TENSOR_READ(int, w_at);
  x += x_at[get_group_id(2)];
  at_w = w_at[get_group_id(2)];
#endif

  float sum[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) sum[r][n] = 0.0f;

#if POINTWISE
  const int taps_y = 1, taps_x = 1;
#else
  int top[ROWS], left[ROWS], image[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const int m = first + r * SIDE, line = m / y_width, n = line / y_height;
    top[r] = (line - n * y_height) * stride_y - pad_y;
    left[r] = (m - line * y_width) * stride_x - pad_x;
    image[r] = n * height;
  }
#endif
  at_w += get_group_id(1) * taps_y * taps_x * channels * BLOCK;
  for (int ky = 0; ky < taps_y; ky++) {
    for (int kx = 0; kx < taps_x; kx++) {
      for (int start = 0; start < channels; start += SIDE) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          const int m = first + r * SIDE;
          bool inside = m < positions && start + across < channels;
#if POINTWISE
          const long at = (long)m * pixel;
#else
          const int iy = top[r] + ky * step_y, ix = left[r] + kx * step_x;
          inside = inside && (uint)iy < (uint)height && (uint)ix < (uint)width;
          const long at = ((long)(image[r] + iy) * width + ix) * pixel;
#endif
          of_x[across][down + r * SIDE] = inside ? X_LOAD(x + (at + start + across)) : 0.0f;
        }
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
          const int at = at_w + (start + down) * BLOCK + across + n * SIDE;
          of_w[down][across + n * SIDE] = start + down < channels ? W_LOAD(w, at) : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = 0; c < SIDE; c++) {
#pragma unroll
          for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
              sum[r][n] += of_x[c][down + r * SIDE] * of_w[c][across + n * SIDE];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      at_w += channels * BLOCK;
    }
  }

#if HAS_SCALES
  TENSOR_READ(float, scales);
  scales += get_group_id(1) * BLOCK + across;
#endif
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (first + r * SIDE >= positions) break;
    FIND_ROW(first + r * SIDE);
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
      if (column + n * SIDE >= columns) break;
      const int channel = part * columns + column + n * SIDE;
      const int at = row * all_columns + channel;
      float result = sum[r][n];
#if HAS_SCALES
      result *= scales[n * SIDE];
#endif
      STAGES(float, LOAD, result, at, channel);
      STORE(result, y + at);
    }
  }
}
