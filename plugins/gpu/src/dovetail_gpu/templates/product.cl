// Sums of products in registers, for processors; see product_head.cl.
//
// A work item computes ROWS positions m times VECTORS vectors of eight columns n. A tap outside the
// image reads a row of zeros: the loop over channels has no branch.

#define BLOCK (8 * VECTORS)
#define W_BLOCK (W_UNITS * VECTORS)

// Adds the products of one tap: `from` are the channels of each position.
static inline void add_tap(float8 sum[ROWS][VECTORS], __global const X *const *from,
                           __global const W *w, int channels) {
  for (int c = 0; c < channels; c++, w += W_BLOCK) {
    float8 b[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) b[v] = W_LOAD8(w + v * W_UNITS);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float8 a = (float8)(X_LOAD(from[r] + c));
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[r][v] += a * b[v];
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void product(PRODUCT_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(W, w);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int first = get_group_id(0) * ROWS;
  const int part = get_group_id(1) / blocks;
  const int column = (get_group_id(1) - part * blocks) * BLOCK;
  x += part * channels;
#if BATCHED
  TENSOR_READ(int, x_at);
  TENSOR_READ(int, w_at);
  x += x_at[get_group_id(2)];
  w += w_at[get_group_id(2)];
#endif

  float8 sum[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = (float8)(0.0f);

  __global const X *from[ROWS];
#if POINTWISE
  w += (long)get_group_id(1) * channels * W_BLOCK;
#pragma unroll
  for (int r = 0; r < ROWS; r++) from[r] = x + (long)min(first + r, positions - 1) * pixel;
  add_tap(sum, from, w, channels);
#else
  TENSOR_READ(X, zeros);
  w += (long)get_group_id(1) * taps_y * taps_x * channels * W_BLOCK;
  int top[ROWS], left[ROWS], image[ROWS];
  {
    int ox = first % y_width, oy = first / y_width, n = oy / y_height;
    oy -= n * y_height;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      top[r] = oy * stride_y - pad_y;
      left[r] = ox * stride_x - pad_x;
      image[r] = n * height;
      if (first + r + 1 < positions && ++ox == y_width) {
        ox = 0;
        if (++oy == y_height) {
          oy = 0;
          n++;
        }
      }
    }
  }
  for (int ky = 0; ky < taps_y; ky++) {
    for (int kx = 0; kx < taps_x; kx++) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const int iy = top[r] + ky * step_y, ix = left[r] + kx * step_x;
        const bool inside = (uint)iy < (uint)height && (uint)ix < (uint)width;
        from[r] = inside ? x + ((long)(image[r] + iy) * width + ix) * pixel : zeros;
      }
      add_tap(sum, from, w, channels);
      w += channels * W_BLOCK;
    }
  }
#endif

#if HAS_SCALES
  TENSOR_READ(float, scales);
  scales += get_group_id(1) * BLOCK;
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const float8 scale = *(__global const packed_float8 *)(scales + v * 8);
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r][v] *= scale;
  }
#endif
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (first + r >= positions) break;
    FIND_ROW(first + r);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      const int left_over = columns - column - v * 8;
      if (left_over <= 0) break;
      const int channel = part * columns + column + v * 8;
      const int at = row * all_columns + channel;
#if !WHOLE
      if (left_over < 8) {
        float part_of[8];
        *(float8 *)part_of = sum[r][v];
        for (int j = 0; j < left_over; j++) {
          float one = part_of[j];
          STAGES(float, LOAD, one, at + j, channel + j);
          STORE(one, y + at + j);
        }
        break;
      }
#endif
      float8 result = sum[r][v];
      STAGES(float8, LOAD8, result, at, channel);
      STORE8(result, y + at);
    }
  }
}
