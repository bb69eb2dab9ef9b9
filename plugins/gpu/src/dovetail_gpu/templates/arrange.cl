// Copies elements to other positions, and fills gaps with zeros.

// Columns of matrices in blocks: y[i][g][b][ky][kx][c][j] is the element at x[start + i * s_i +
// g * s_g + ky * s_y + kx * s_x + c * s_c + (b * block + j) * s_n]; zero beyond `columns`.
__kernel void blocks(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int block, int groups,
                     int taps_y, int taps_x, int channels, int columns, int start, int s_i, int s_g,
                     int s_y, int s_x, int s_c, int s_n) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int at = get_global_id(0);
  if (at >= count) return;
  const int of_group = (columns + block - 1) / block;
  int rest = at;
  const int j = rest % block;
  rest /= block;
  const int c = rest % channels;
  rest /= channels;
  const int kx = rest % taps_x;
  rest /= taps_x;
  const int ky = rest % taps_y;
  rest /= taps_y;
  const int column = rest % of_group * block + j;
  rest /= of_group;
  const int g = rest % groups, i = rest / groups;
  const bool inside = column < columns;
  const long from = (long)start + (long)i * s_i + (long)g * s_g + ky * s_y + kx * s_x +
                    (long)c * s_c + (long)column * s_n;
  const float found = LOAD(x + (inside ? from : 0));
  STORE(inside ? found : 0.0f, y + at);
}

// Zeros around lines: y[i][l] of `width` elements is x[i][l - before] of `x_width`.
__kernel void pad(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int width, int x_width,
                  int before) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int at = get_global_id(0);
  if (at >= count) return;
  const int line = at / width, l = at - line * width - before;
  const bool inside = l >= 0 && l < x_width;
  const float found = LOAD(x + (inside ? (long)line * x_width + l : 0));
  STORE(inside ? found : 0.0f, y + at);
}
