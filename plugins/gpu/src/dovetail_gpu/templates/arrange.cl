// Copies elements to other positions, and fills gaps with zeros.

// Columns of matrices in blocks: y[i][g][b][ky][kx][c][j] is the element at x[start + i * s_i +
// g * s_g + ky * s_y + kx * s_x + c * s_c + (b * block + j) * s_n]; zero beyond `columns`. A work item
// copies eight columns of one tap, for `chunk` channels.
__kernel void blocks(TENSOR_IN(S, x), TENSOR_OUT(S, y), int eights, int block, int groups,
                     int taps_y, int taps_x, int channels, int columns, int start, int s_i, int s_g,
                     int s_y, int s_x, int s_c, int s_n, int chunk) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int item = get_global_id(0), tap = get_global_id(1), taps = taps_y * taps_x;
  if (item >= eights) return;
  const int of_block = block / 8, blocks = (columns + block - 1) / block;
  const int v = item % of_block, whole = item / of_block;
  const int b = whole % blocks, part = whole / blocks;
  const int g = part % groups, i = part / groups, ky = tap / taps_x, kx = tap - ky * taps_x;
  const int column = b * block + v * 8, rest = columns - column;
  y += ((long)whole * taps + tap) * channels * block + v * 8;
  x += (long)start + (long)i * s_i + (long)g * s_g + ky * s_y + kx * s_x;
  if (rest > 0) x += (long)column * s_n;
  const int first = get_global_id(2) * chunk, last = min(first + chunk, channels);
  x += (long)first * s_c;
  y += (long)first * block;
  if (rest >= 8 && s_n == 1) {
    for (int c = first; c < last; c++, x += s_c, y += block) STORE8(LOAD8(x), y);
  } else if (rest >= 8) {
    for (int c = first; c < last; c++, x += s_c, y += block) {
      const float8 found = {LOAD(x),           LOAD(x + s_n),     LOAD(x + 2 * s_n),
                            LOAD(x + 3 * s_n), LOAD(x + 4 * s_n), LOAD(x + 5 * s_n),
                            LOAD(x + 6 * s_n), LOAD(x + 7 * s_n)};
      STORE8(found, y);
    }
  } else {
    for (int c = first; c < last; c++, x += s_c, y += block)
      for (int j = 0; j < 8; j++) {
        const float found = j < rest ? LOAD(x + (long)j * s_n) : 0.0f;
        STORE(found, y + j);
      }
  }
}

// Zeros around lines: y[i][l] of `width` elements is x[i][l - before] of `x_width`. An item writes
// `wide` elements of a line.
__kernel void pad(TENSOR_IN(S, x), TENSOR_OUT(S, y), int lines, int width, int x_width, int before,
                  int wide) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int line = get_global_id(1);
  if (line >= lines) return;
  int l = get_global_id(0) * wide;
  const int end = min(l + wide, width), first = min(end, before), last = min(end, before + x_width);
  x += (long)line * x_width - before;
  y += (long)line * width;
  for (; l < first; l++) STORE(0.0f, y + l);
  for (; l + 8 <= last; l += 8) STORE8(LOAD8(x + l), y + l);
  for (; l < last; l++) STORE(LOAD(x + l), y + l);
  for (; l < end; l++) STORE(0.0f, y + l);
}
