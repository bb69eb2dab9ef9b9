// Convolutions of 3 x 3 elements by Winograd's minimal filtering F(4 x 4, 3 x 3).
//
// Each tile of 4 x 4 outputs is computed from 6 x 6 inputs: both operands are transformed, multiplied
// as 36 matrices of tiles by channels, and the products are transformed back.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.

#define IN_TILE 6
#define OUT_TILE 4

// One axis of the transform of the input: t = B^T d.
#define TO_POINTS(t, d, step) \
  { \
    const float8 even = d[4 * step] - 4.0f * d[2 * step], odd = d[3 * step] - 4.0f * d[1 * step]; \
    const float8 near = d[4 * step] - d[2 * step], far = 2.0f * (d[3 * step] - d[1 * step]); \
    t[0] = 4.0f * d[0] - 5.0f * d[2 * step] + d[4 * step]; \
    t[1] = even + odd; \
    t[2] = even - odd; \
    t[3] = near + far; \
    t[4] = near - far; \
    t[5] = 4.0f * d[1 * step] - 5.0f * d[3 * step] + d[5 * step]; \
  }

// One axis of the transform of the products: y = A^T m.
#define FROM_POINTS(y, m, step) \
  { \
    const float8 sum = m[1 * step] + m[2 * step], more = m[3 * step] + m[4 * step]; \
    const float8 gap = m[1 * step] - m[2 * step], wide = m[3 * step] - m[4 * step]; \
    y[0] = m[0] + sum + more; \
    y[1] = gap + 2.0f * wide; \
    y[2] = sum + 4.0f * more; \
    y[3] = gap + 8.0f * wide + m[5 * step]; \
  }

// v[point][tile][c] of a tile of x; channels are a multiple of eight.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void to_points(
    TENSOR_IN(float, x), TENSOR_IN(float, zeros), TENSOR_OUT(float, v), int channels, int height,
    int width, int tiles_y, int tiles_x, int tiles, int pad_y, int pad_x) {
  TENSOR_READ(float, x);
  TENSOR_READ(float, zeros);
  TENSOR_WRITE(float, v);
  const int tile = get_group_id(0), line = tile / tiles_x, n = line / tiles_y;
  const int top = (line - n * tiles_y) * OUT_TILE - pad_y;
  const int left = (tile - line * tiles_x) * OUT_TILE - pad_x;
  __global const float *pixel[IN_TILE * IN_TILE];
  for (int i = 0; i < IN_TILE; i++)
    for (int j = 0; j < IN_TILE; j++) {
      const bool inside = (uint)(top + i) < (uint)height && (uint)(left + j) < (uint)width;
      const long at = ((long)(n * height + top + i) * width + left + j) * channels;
      pixel[i * IN_TILE + j] = inside ? x + at : zeros;
    }
  v += (long)tile * channels;
  const long point = (long)tiles * channels;
  for (int c = 0; c < channels; c += 8) {
    float8 rows[IN_TILE * IN_TILE];
    for (int i = 0; i < IN_TILE; i++) {
      float8 d[IN_TILE];
#pragma unroll
      for (int j = 0; j < IN_TILE; j++)
        d[j] = *(__global const packed_float8 *)(pixel[i * IN_TILE + j] + c);
      TO_POINTS((rows + i * IN_TILE), d, 1);
    }
    for (int j = 0; j < IN_TILE; j++) {
      float8 t[IN_TILE];
      TO_POINTS(t, (rows + j), IN_TILE);
#pragma unroll
      for (int i = 0; i < IN_TILE; i++)
        *(__global packed_float8 *)(v + (i * IN_TILE + j) * point + c) = t[i];
    }
  }
}

// y of a tile from m[point][tile][n]; channels are a multiple of eight.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void from_points(
    TENSOR_IN(float, m), TENSOR_OUT(S, y), int channels, int height, int width, int tiles_y,
    int tiles_x, int tiles STAGE_PARAMETERS) {
  TENSOR_READ(float, m);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int tile = get_group_id(0), line = tile / tiles_x, n = line / tiles_y;
  const int top = (line - n * tiles_y) * OUT_TILE, left = (tile - line * tiles_x) * OUT_TILE;
  m += (long)tile * channels;
  const long point = (long)tiles * channels;
  for (int c = 0; c < channels; c += 8) {
    float8 rows[OUT_TILE * IN_TILE];
    for (int j = 0; j < IN_TILE; j++) {
      float8 d[IN_TILE], t[OUT_TILE];
#pragma unroll
      for (int i = 0; i < IN_TILE; i++)
        d[i] = *(__global const packed_float8 *)(m + (i * IN_TILE + j) * point + c);
      FROM_POINTS(t, d, 1);
#pragma unroll
      for (int i = 0; i < OUT_TILE; i++) rows[i * IN_TILE + j] = t[i];
    }
    for (int i = 0; i < OUT_TILE; i++) {
      if (top + i >= height) break;
      float8 t[OUT_TILE];
      FROM_POINTS(t, (rows + i * IN_TILE), 1);
#pragma unroll
      for (int j = 0; j < OUT_TILE; j++) {
        if (left + j >= width) break;
        const int at = ((n * height + top + i) * width + left + j) * channels + c;
        float8 result = t[j];
        STAGES(float8, LOAD8, result, at, c);
        STORE8(result, y + at);
      }
    }
  }
}
